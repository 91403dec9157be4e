// The state segment: everything that the ranks of a domain share besides the window's bytes, in one sparse memfd with a
// versioned layout, mapped by all of them at any address. What outlives a process lies here: directory, agent entries,
// block maps, presence, regions, counters, calls, poison log.
//
// Zero-filled memory is a valid initial state of every area; nothing is initialised but the header. Areas are indexed by
// arithmetic (RegionDescriptor::slot, page number, run number), so no look-up and no allocation is ever needed.
// Who writes what: the lane alone writes Directory, Agents, BlockMaps, Frames, Presence; regions are created by the rank
// that allocates (under the table's lock) and by the lane; calls, counters and barrier words are atomics for all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/counters.hpp"
#include "runtime/base/handle.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/units.hpp"

namespace farpage::memory {

inline constexpr uint64_t kSegmentMagic = 0x7061'6765'6661'7201;
inline constexpr uint32_t kSegmentVersion = 1;
inline constexpr uint32_t kMaxRegions = 32768;
inline constexpr uint32_t kCallSlots = 256;
inline constexpr uint32_t kCallSlotBytes = 256;
inline constexpr uint32_t kPoisonRecords = 64;
inline constexpr uint32_t kMailboxEntries = 65536;

/// Why a block was poisoned in a rank: written by the lane before the poison, read by that rank's SIGBUS handler.
struct PoisonRecord {
  std::atomic<uint64_t> sequence;  // 0: empty; odd while being written
  WindowOffset offset;
  uint64_t bytes;
  uint32_t rank_slot;
  uint32_t thread;  // the thread that was signalled instead of poisoned; 0: poison
  uint32_t status;  // Status
  char reason[156];
};

/// One entry of a rank's mailbox: memory of its arena that others have freed. Drained by the rank's allocator.
struct MailboxEntry {
  std::atomic<uint64_t> offset_plus_one;  // 0: empty
};
struct Mailbox {  // single consumer (the rank), producers: the lane
  std::atomic<uint64_t> head, tail;
  MailboxEntry entries[kMailboxEntries];
};

struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t ranks;  // of the domain
  uint64_t window_bytes;
  uint64_t job_id;
  std::atomic<uint64_t> heartbeat;      // bumped by the lane
  std::atomic<uint32_t> lane_ended;     // 1: the lane left in order, 2: it gave up
  std::atomic<int32_t> pids[kMaxRanksPerDomain];
  // Barrier (runtime/sync).
  alignas(64) std::atomic<uint32_t> barrier_arrived;
  alignas(64) std::atomic<uint32_t> barrier_generation;  // futex
  std::atomic<uint32_t> barrier_status;
  // Calls (runtime/engine/call.hpp).
  alignas(64) std::atomic<uint64_t> call_head;
  std::atomic<uint64_t> call_tail;
  // Region table.
  alignas(64) std::atomic<uint32_t> region_lock;  // futex word, holder's pid
  std::atomic<uint32_t> region_count;             // slots ever used
  alignas(64) std::atomic<uint64_t> poison_next;
  std::atomic<uint64_t> home_bytes_limit;
  alignas(64) Counters counters;
};

enum class Area : uint32_t { Header, Calls, PoisonLog, Mailboxes, Regions, Runs, Presence, Directory, Agents, BlockMaps, RunStates, Frames, kCount };

inline constexpr uint64_t kDirectoryEntryBytes = 16;
inline constexpr uint64_t kAgentEntryBytes = 8;

/// Which ranks of the domain map a block, which of them may write it, and where it stands in the cache's clock. The lane's
/// alone. 32 bytes.
struct BlockMap {
  uint64_t mapped;
  uint64_t writers;
  uint32_t frame_plus_one;  // index in Area::Frames; 0: home memory, or no frame
  uint8_t flags;            // BlockFlag
  uint8_t pad[11];
};
static_assert(sizeof(BlockMap) == 32);
enum BlockFlag : uint8_t {
  kReferenced = 1,    // a thread faulted on it since the clock's hand passed
  kPrefetched = 2,    // asked ahead, not touched yet
  kLost = 4,          // a wait for it missed its deadline: every access ends in poison
  kInFile = 8,        // all its pages are in the file
  kStarted = 16,      // home: the agent entry has been set to Modified
};

/// A 2 MiB run of the window. Written by the lane alone; the allocator of its owner reads `poisoned`.
struct RunState {
  uint64_t open;                   // ranks that have it as plain memory
  uint32_t shared;                 // 1: a block of it has been granted to another domain; it is not opened again
  std::atomic<uint32_t> poisoned;  // 1: some rank has poison in its page table here; the addresses are not used again
};

struct SegmentParameters {
  uint64_t window_bytes = 0;
  uint64_t cache_bytes = 0;
  uint32_t ranks = 1;
  uint64_t job_id = 0;
};

/// Offsets of the areas: a function of the parameters, the same in all ranks.
struct SegmentLayout {
  explicit SegmentLayout(const SegmentParameters& parameters);
  uint64_t begin[static_cast<uint32_t>(Area::kCount)];
  uint64_t bytes[static_cast<uint32_t>(Area::kCount)];
  uint64_t total_bytes;
};

class StateSegment {
 public:
  /// Leader: creates the memfd and writes the header.
  static Result<StateSegment> create(const SegmentParameters& parameters);
  /// Other ranks: maps the leader's. Refuses another version.
  static Result<StateSegment> attach(Fd fd, const SegmentParameters& parameters);
  StateSegment(StateSegment&& other) noexcept;
  StateSegment& operator=(StateSegment&&) = delete;
  ~StateSegment();

  int fd() const { return fd_.get(); }
  SegmentHeader& header() const { return *static_cast<SegmentHeader*>(area(Area::Header)); }
  Counters& counters() const { return header().counters; }
  void* area(Area which) const { return base_ + layout_.begin[static_cast<uint32_t>(which)]; }
  uint64_t area_bytes(Area which) const { return layout_.bytes[static_cast<uint32_t>(which)]; }

  void* directory_entry(uint64_t slot) const { return static_cast<std::byte*>(area(Area::Directory)) + slot * kDirectoryEntryBytes; }
  void* agent_entry(uint64_t slot) const { return static_cast<std::byte*>(area(Area::Agents)) + slot * kAgentEntryBytes; }
  BlockMap& block_map(uint64_t slot) const { return static_cast<BlockMap*>(area(Area::BlockMaps))[slot]; }
  RunState& run_state(uint64_t run) const { return static_cast<RunState*>(area(Area::RunStates))[run]; }
  std::span<uint64_t> frames() const { return {static_cast<uint64_t*>(area(Area::Frames)), area_bytes(Area::Frames) / 8}; }
  std::atomic<uint8_t>* presence() const { return static_cast<std::atomic<uint8_t>*>(area(Area::Presence)); }
  std::span<std::byte> call_slots() const { return {static_cast<std::byte*>(area(Area::Calls)), area_bytes(Area::Calls)}; }
  std::span<PoisonRecord, kPoisonRecords> poison_log() const {
    return std::span<PoisonRecord, kPoisonRecords>(static_cast<PoisonRecord*>(area(Area::PoisonLog)), kPoisonRecords);
  }
  Mailbox& mailbox(RankSlot rank) const { return static_cast<Mailbox*>(area(Area::Mailboxes))[rank]; }

  /// Gives the memory of an area's part back (after free), so that it reads as zeros again.
  void zero(Area which, uint64_t first_byte, uint64_t bytes) const;

 private:
  StateSegment(Fd fd, std::byte* base, const SegmentLayout& layout) : fd_(std::move(fd)), base_(base), layout_(layout) {}
  Fd fd_;
  std::byte* base_ = nullptr;
  SegmentLayout layout_;
};

/// Presence of a page in the domain, read by anyone without a lock: a snapshot.
enum : uint8_t { kPresent = 1, kWritable = 2 };

}  // namespace farpage::memory
