#include "runtime/memory/poison_log.hpp"

#include <cstring>

namespace farpage::memory {

void log_poison(const StateSegment& segment, RankSlot rank, Range range, Status status, const char* reason, uint32_t thread) {
  const uint64_t number = segment.header().poison_next.fetch_add(1, std::memory_order_relaxed);
  PoisonRecord& record = segment.poison_log()[number % kPoisonRecords];
  record.sequence.store(2 * number + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  record.offset = range.offset;
  record.bytes = range.bytes;
  record.rank_slot = rank;
  record.thread = thread;
  record.status = static_cast<uint32_t>(status);
  const size_t length = strnlen(reason, sizeof record.reason - 1);
  std::memcpy(record.reason, reason, length);
  record.reason[length] = 0;
  record.sequence.store(2 * number + 2, std::memory_order_release);
}

namespace {

template <class Matches>
bool find_newest(const StateSegment& segment, Matches&& matches, PoisonReason& out) {
  uint64_t newest = 0;
  for (const PoisonRecord& record : segment.poison_log()) {
    const uint64_t before = record.sequence.load(std::memory_order_acquire);
    if (before == 0 || before % 2 != 0 || before < newest || !matches(record)) continue;
    PoisonReason copy;
    copy.range = {record.offset, record.bytes};
    copy.status = static_cast<Status>(record.status);
    std::memcpy(copy.text, record.reason, sizeof copy.text);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (record.sequence.load(std::memory_order_relaxed) != before) continue;
    newest = before;
    out = copy;
  }
  return newest != 0;
}

}  // namespace

bool find_poison(const StateSegment& segment, RankSlot rank, WindowOffset at, PoisonReason& out) {
  return find_newest(segment, [&](const PoisonRecord& record) { return record.rank_slot == rank && at - record.offset < record.bytes; }, out);
}

bool find_signalled(const StateSegment& segment, RankSlot rank, uint32_t thread, PoisonReason& out) {
  return find_newest(segment, [&](const PoisonRecord& record) { return record.rank_slot == rank && record.thread == thread; }, out);
}

}  // namespace farpage::memory
