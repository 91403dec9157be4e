#include "runtime/engine/call.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "runtime/base/clock.hpp"

namespace farpage::engine {
namespace {

std::span<CallSlot> slots(const memory::StateSegment& segment) {
  return {reinterpret_cast<CallSlot*>(segment.call_slots().data()), memory::kCallSlots};
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns) {
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000), static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

}  // namespace

CallSlot* CallPort::claim(uint64_t deadline_ns) const {
  const SteadyClock clock;
  for (;;) {
    for (CallSlot& slot : slots(*segment_)) {
      uint32_t expected = CallSlot::Free;
      if (slot.state.load(std::memory_order_relaxed) == expected &&
          slot.state.compare_exchange_strong(expected, CallSlot::Claimed, std::memory_order_acquire))
        return &slot;
    }
    if (clock.now_ns() >= deadline_ns) return nullptr;
    sched_yield();
  }
}

void CallPort::ring(CallSlot* slot) const {
  slot->state.store(CallSlot::Asked, std::memory_order_release);
  segment_->header().call_head.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t one = 1;
  (void)!::write(doorbell_, &one, sizeof one);
}

Result<> CallPort::call(CallOp op, uint64_t offset, uint64_t bytes, uint64_t timeout_ms) const {
  const SteadyClock clock;
  const uint64_t deadline = clock.now_ns() + timeout_ms * 1'000'000;
  CallSlot* slot = claim(deadline);
  if (slot == nullptr) return error(Status::Busy, "all {} call slots of the domain are in use", memory::kCallSlots);
  slot->op = op;
  slot->rank_slot = rank_slot_;
  slot->status = 0;
  slot->offset = offset;
  slot->bytes = bytes;
  slot->deadline_ns = deadline;
  std::fill(std::begin(slot->lane_word), std::end(slot->lane_word), 0);
  slot->message[0] = 0;
  ring(slot);
  for (;;) {
    const uint32_t state = slot->state.load(std::memory_order_acquire);
    if (state == CallSlot::Answered) break;
    const bool lane_gone = segment_->header().lane_ended.load() != 0;
    const uint64_t now = clock.now_ns();
    if (lane_gone || now >= deadline) {
      uint32_t expected = CallSlot::Asked;
      if (slot->state.compare_exchange_strong(expected, CallSlot::Abandoned)) {
        if (lane_gone) return error(Status::PeerLost, "the leader of this domain has ended");
        return error(Status::TimedOut, "no answer from the lane within {} ms", timeout_ms);
      }
      continue;  // answered at this very moment
    }
    // Bounded naps: the lane may end without waking anybody.
    futex_wait(slot->state, CallSlot::Asked, std::min<uint64_t>(deadline - now, 500'000'000));
  }
  const auto status = static_cast<Status>(slot->status);
  std::string message(slot->message);
  slot->state.store(CallSlot::Free, std::memory_order_release);
  if (status == Status::Ok) return success();
  return Error{status, std::move(message)};
}

Result<> CallPort::post(CallOp op, uint64_t offset, uint64_t bytes) const {
  CallSlot* slot = claim(0);
  if (slot == nullptr) return error(Status::Busy, "all {} call slots of the domain are in use", memory::kCallSlots);
  slot->op = op;
  slot->rank_slot = rank_slot_;
  slot->offset = offset;
  slot->bytes = bytes;
  slot->deadline_ns = 0;
  std::fill(std::begin(slot->lane_word), std::end(slot->lane_word), 0);
  slot->message[0] = 0;
  ring(slot);
  return success();
}

}  // namespace farpage::engine
