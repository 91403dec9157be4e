// Page tables of all ranks of one domain, and the bytes behind them. The lane's alone: exactly one thread of the domain
// calls these functions, which is what makes the orders below safe (a late CONTINUE would otherwise undo a freeze).
//
// The lane's block table alone says what is present; MISSING and MINOR in a fault are hints. Ranks are bit numbers
// (RankSlot); a rank that has died is skipped (its descriptor answers ESRCH) and its bits are dropped by the caller.
// Never fills through a mapping: bytes enter by install() (UFFDIO_COPY) or fill() (pwrite).
// Ranges are whole blocks (multiples of a page) inside the window.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/handle.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/units.hpp"

namespace farpage::memory {

enum class Access : uint8_t { Read, Write };

struct PageFault {
  RankSlot rank;
  uint32_t thread;  // the faulting thread's id in its process
  WindowOffset offset;
  bool write;         // a store, on an absent page or on a read copy
  bool write_protect; // the page is mapped read-only (upgrade)
  bool minor;         // hint: the page is in the file
};

struct Range {
  WindowOffset offset;
  uint64_t bytes;
};

class PageTables {
 public:
  virtual ~PageTables() = default;

  /// Adds a rank's descriptor (a userfaultfd of that process over its application view). Its faults come from read_faults.
  virtual void add_rank(RankSlot rank, Fd descriptor) = 0;
  /// The rank has left or died: closes our copy of its descriptor.
  virtual void remove_rank(RankSlot rank) = 0;
  virtual bool rank_alive(RankSlot rank) const = 0;
  /// For epoll; -1 for a rank that is gone.
  virtual int fault_fd(RankSlot rank) const = 0;
  /// Reads faults of one rank without waiting; returns how many.
  virtual size_t read_faults(RankSlot rank, std::span<PageFault> out) = 0;

  /// Maps pages that are in the file into one rank and wakes who waits for them. Access::Read maps them write-protected.
  /// Pages already mapped keep what they have, or become writable with Access::Write.
  virtual void map(RankSlot rank, Range range, Access access) = 0;
  /// Fills an absent block and maps it into one rank in one step, and wakes. `bytes` is page-aligned.
  virtual void install(RankSlot rank, Range range, const std::byte* bytes, Access access) = 0;
  /// Makes a read-only mapping of one rank writable and wakes.
  virtual void allow_write(RankSlot rank, Range range) = 0;
  /// Takes the right to write from the ranks in `writers`; afterwards the bytes stand still.
  virtual void freeze(uint64_t writers, Range range) = 0;
  /// Withdraws the range from every rank and drops its bytes.
  virtual void punch(Range range) = 0;
  /// Puts bytes of an absent block into the file; no rank maps it afterwards.
  virtual void fill(Range range, const std::byte* bytes) = 0;
  /// Makes absent pages present as zeros in the file (home memory nobody has touched).
  virtual void fill_zeros(Range range) = 0;
  /// Every access of this rank to the range ends in SIGBUS; frees who waits. The range must have been punched, or have no
  /// bytes in the file.
  virtual void poison(RankSlot rank, Range range) = 0;
  /// Wakes who waits in the range; they fault anew.
  virtual void wake(RankSlot rank, Range range) = 0;

  /// Gives the range to one rank as plain memory: no faults reach the lane from it. Wakes. False: the process has too many
  /// mappings already (half of vm.max_map_count).
  virtual bool open(RankSlot rank, Range range) = 0;
  /// The range raises faults again in this rank; what it has mapped stays mapped and writable.
  virtual void close(RankSlot rank, Range range) = 0;

  /// The runtime view: reads of present bytes that stand still (frozen, or read-only everywhere). Never stores.
  virtual const std::byte* view(WindowOffset offset) const = 0;
};

/// What the kernel offers; printed by dsm-info.
struct FaultMechanism {
  bool full_userfaultfd = false;  // also faults inside system calls, CONTINUE with write protection, MINOR on shared memory
  std::string description;        // "full userfaultfd (Linux 6.18)", or why not
};
FaultMechanism probe_fault_mechanism();

/// In each rank: a userfaultfd over its own application view, the whole window registered MISSING | MINOR | WP.
Result<Fd> open_fault_descriptor(std::byte* window_base, uint64_t window_bytes);

/// The lane's page tables over userfaultfd. `window_file` and `window_base` (equal in all ranks) outlive it.
Result<std::unique_ptr<PageTables>> make_uffd_page_tables(int window_file, std::byte* window_base, uint64_t window_bytes);

}  // namespace farpage::memory
