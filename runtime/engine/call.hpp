// Calls: how any thread of a domain asks its lane for something that is not a page fault. A slot in the state segment holds
// the question and the answer; an eventfd wakes the lane; the caller sleeps on the slot's futex word until the answer or the
// deadline. A caller that gives up leaves its slot to the lane, which frees it when the answer comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "runtime/base/result.hpp"
#include "runtime/memory/region.hpp"
#include "runtime/memory/state_segment.hpp"

namespace farpage::engine {

enum class CallOp : uint32_t {
  Resolve,       // offset: bring the descriptor of the region that holds it
  CreateRegion,  // offset of a region just entered in the table: tell its other home domains, reserve their memory
  FreeRegion,    // offset of the region
  FreeObject,    // offset of a small object of another rank's arena
  Publish,       // offset: this rank has published its part
  Prefetch,      // offset, bytes: no answer awaited
  Barrier,       // this domain has arrived
};

struct CallSlot {
  enum State : uint32_t { Free = 0, Claimed = 1, Asked = 2, Answered = 3, Abandoned = 4 };
  std::atomic<uint32_t> state;  // futex word
  CallOp op;
  uint32_t rank_slot;
  int32_t status;  // Status, when Answered
  uint64_t offset;
  uint64_t bytes;
  uint64_t deadline_ns;  // of the caller, CLOCK_MONOTONIC
  uint64_t lane_word[4];  // the lane's own notes while it works on the call
  char message[184];      // why not, when status is not Ok
};
static_assert(sizeof(CallSlot) == memory::kCallSlotBytes);

/// A rank's end of the calls. Any thread.
class CallPort {
 public:
  CallPort(const memory::StateSegment& segment, int doorbell, uint32_t rank_slot)
      : segment_(&segment), doorbell_(doorbell), rank_slot_(rank_slot) {}

  /// Asks and waits. Busy when all slots are taken until the deadline; PeerLost when the lane has ended.
  Result<> call(CallOp op, uint64_t offset, uint64_t bytes, uint64_t timeout_ms) const;
  /// Asks and does not wait; Busy when no slot is free.
  Result<> post(CallOp op, uint64_t offset, uint64_t bytes) const;

 private:
  CallSlot* claim(uint64_t deadline_ns) const;
  void ring(CallSlot* slot) const;
  const memory::StateSegment* segment_;
  int doorbell_;
  uint32_t rank_slot_;
};

}  // namespace farpage::engine
