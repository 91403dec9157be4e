#include "runtime/engine/threads.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace farpage::engine {

Threads::Threads()
    : threads_(kCapacity), index_(kCapacity * 2, kNoThread), first_(kBuckets, kNoThread), last_(kBuckets, kNoThread) {
  timers_.reserve(kCapacity);
}

uint32_t Threads::index_hash(RankSlot rank, uint32_t tid) const {
  return static_cast<uint32_t>(((uint64_t{rank} << 32 | tid) * 0x9e3779b97f4a7c15ull >> 32) & (index_.size() - 1));
}

ThreadSlot Threads::find_or_add(RankSlot rank, uint32_t tid) {
  const uint32_t mask = static_cast<uint32_t>(index_.size() - 1);
  uint32_t at = index_hash(rank, tid);
  for (; index_[at] != kNoThread; at = (at + 1) & mask) {
    const Thread& thread = threads_[index_[at]];
    if (thread.rank == rank && thread.tid == tid) return index_[at];
  }
  ThreadSlot slot = high_water_;
  if (high_water_ < kCapacity) {
    high_water_++;
  } else {
    // All entries are taken: reuse an idle one. Its index entry is rebuilt with the others, which is rare.
    uint32_t tried = 0;
    auto busy = [this](const Thread& thread) { return thread.waiting != WaitingFor::Nothing || thread.hold_due_ns != 0; };
    do {
      recycle_hand_ = (recycle_hand_ + 1) % kCapacity;
      DSM_CHECK(++tried <= kCapacity, "more than {} threads wait or hold at once", kCapacity);
    } while (busy(threads_[recycle_hand_]));
    slot = recycle_hand_;
    threads_[slot] = Thread{};
    std::fill(index_.begin(), index_.end(), kNoThread);
    for (ThreadSlot t = 0; t < kCapacity; t++) {
      if (!threads_[t].used) continue;
      uint32_t place = index_hash(threads_[t].rank, threads_[t].tid);
      while (index_[place] != kNoThread) place = (place + 1) & mask;
      index_[place] = t;
    }
    at = index_hash(rank, tid);
    while (index_[at] != kNoThread) at = (at + 1) & mask;
  }
  threads_[slot] = Thread{};
  threads_[slot].rank = rank;
  threads_[slot].tid = tid;
  threads_[slot].used = true;
  index_[at] = slot;
  return slot;
}

void Threads::start_waiting(ThreadSlot slot, WaitingFor what, uint64_t block_slot) {
  Thread& thread = threads_[slot];
  DSM_CHECK(thread.waiting == WaitingFor::Nothing);
  thread.waiting = what;
  thread.slot = block_slot;
  waiting_++;
  if (what != WaitingFor::Block) return;
  const uint32_t bucket = bucket_of(block_slot);
  thread.next = kNoThread;
  thread.previous = last_[bucket];
  if (last_[bucket] == kNoThread)
    first_[bucket] = slot;
  else
    threads_[last_[bucket]].next = slot;
  last_[bucket] = slot;
}

void Threads::stop_waiting(ThreadSlot slot) {
  Thread& thread = threads_[slot];
  if (thread.waiting == WaitingFor::Nothing) return;
  if (thread.waiting == WaitingFor::Block) {
    const uint32_t bucket = bucket_of(thread.slot);
    (thread.previous == kNoThread ? first_[bucket] : threads_[thread.previous].next) = thread.next;
    (thread.next == kNoThread ? last_[bucket] : threads_[thread.next].previous) = thread.previous;
  }
  thread.next = thread.previous = kNoThread;
  thread.waiting = WaitingFor::Nothing;
  waiting_--;
}

ThreadSlot Threads::first_waiter(uint64_t block_slot, bool write) {
  for (ThreadSlot t = first_[bucket_of(block_slot)]; t != kNoThread; t = threads_[t].next)
    if (threads_[t].slot == block_slot && threads_[t].write == write) return t;
  return kNoThread;
}

void Threads::start_timer(ThreadSlot slot, uint64_t due_ns) {
  if (threads_[slot].hold_due_ns == 0) timers_.push_back(slot);
  threads_[slot].hold_due_ns = due_ns;
}

void Threads::stop_timer(ThreadSlot slot) {
  if (threads_[slot].hold_due_ns == 0) return;
  threads_[slot].hold_due_ns = 0;
  const auto found = std::find(timers_.begin(), timers_.end(), slot);
  *found = timers_.back();
  timers_.pop_back();
}

uint64_t Threads::earliest_timer() const {
  uint64_t earliest = UINT64_MAX;
  for (ThreadSlot t : timers_) earliest = std::min(earliest, threads_[t].hold_due_ns);
  return earliest;
}

ThreadSlot Threads::take_expired(uint64_t now_ns) {
  for (ThreadSlot t : timers_) {
    if (threads_[t].hold_due_ns > now_ns) continue;
    stop_timer(t);
    return t;
  }
  return kNoThread;
}

void Threads::drop_rank(RankSlot rank) {
  for (ThreadSlot t = 0; t < high_water_; t++)
    if (threads_[t].used && threads_[t].rank == rank) stop_waiting(t);
}

}  // namespace farpage::engine
