// A rank in a process of its own, for tests that play its lane. It makes one access at a time, as asked, and answers what came
// of it: the value, or the signal that the access ended in. Created while the test's process has one thread only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/memory/domain_channel.hpp"
#include "runtime/memory/page_tables.hpp"
#include "runtime/memory/state_segment.hpp"
#include "runtime/memory/window.hpp"

namespace farpage::memory {

inline constexpr uint64_t kTestWindowBytes = uint64_t{256} << 20;
inline constexpr int kPatienceMs = 20000;

enum class Op : uint32_t {
  Load,          // value of the word
  Store,         // writes the word
  Count,         // adds one to the word `value` times, by a locked instruction
  SystemCall,    // write(2) of the word to a pipe: its value, or errno
  GuardedCopy,   // guarded_copy of the word: status and value
  GuardedStore,  // guarded_copy to the word: status
  LoadReported,  // the fault report is installed over the default action, stderr goes to the test: then a load
  Fork,          // a child of the rank loads the word: the signal that ended it
  End
};
struct Request {
  Op op;
  WindowOffset offset;
  uint64_t value;
};
struct Answer {
  uint64_t value;
  int32_t signal;  // 0: none
  int32_t error;   // errno or Status
};

/// One domain: window file, state segment, page tables, and its ranks as processes (slots 1, 2, ...; the test is slot 0).
class TestDomain {
 public:
  explicit TestDomain(uint32_t ranks);
  ~TestDomain();

  PageTables& pages() { return *pages_; }
  StateSegment& segment() { return *segment_; }
  WindowChoice window() const { return window_; }
  int file() const { return file_.get(); }

  void ask(RankSlot rank, Op op, WindowOffset offset, uint64_t value = 0);
  /// Waits for the answer; nothing: none came before the deadline, or the rank has ended.
  std::optional<Answer> answer(RankSlot rank, int timeout_ms = kPatienceMs);
  bool answered(RankSlot rank);
  /// Waits for the next fault of the rank; nothing: none came.
  std::optional<PageFault> fault(RankSlot rank, int timeout_ms = kPatienceMs);
  bool fault_or_answer(RankSlot rank);  // waits for either; true: a fault is there
  std::optional<Answer> call(RankSlot rank, Op op, WindowOffset offset, uint64_t value = 0) {
    ask(rank, op, offset, value);
    return answer(rank);
  }

  pid_t pid(RankSlot rank) const { return ranks_[rank - 1].pid; }
  void kill(RankSlot rank);
  /// Waits for the rank's end; its wait status.
  int wait_end(RankSlot rank);
  /// What the rank has written to its stderr since LoadReported, until its end.
  std::string messages(RankSlot rank);

 private:
  struct Rank {
    pid_t pid = 0;
    Fd connection, errors;
  };
  WindowChoice window_;
  Fd file_;
  std::optional<StateSegment> segment_;
  std::unique_ptr<PageTables> pages_;
  std::vector<Rank> ranks_;
};

/// A small window at an address that is free in this build (sanitizers take most of the address space).
WindowChoice test_window();

/// Makes the calling process, a child of a test, end with its parent and in any case.
void bind_to_parent();

}  // namespace farpage::memory
