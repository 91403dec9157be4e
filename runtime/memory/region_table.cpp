#include "runtime/memory/region_table.hpp"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "runtime/base/check.hpp"

namespace farpage::memory {
namespace {

// A futex lock whose word is the holder's pid: who waits longer than a moment looks whether the holder still lives.
class TableLock {
 public:
  explicit TableLock(std::atomic<uint32_t>& word) : word_(word) {
    const auto me = static_cast<uint32_t>(::getpid());
    for (uint32_t holder = 0; !word_.compare_exchange_strong(holder, me, std::memory_order_acquire); holder = 0) {
      const timespec patience{0, 10'000'000};
      ::syscall(SYS_futex, &word_, FUTEX_WAIT, holder, &patience, nullptr, 0);
      uint32_t now = word_.load();
      if (now == holder && holder != 0 && ::kill(static_cast<pid_t>(holder), 0) != 0 && errno == ESRCH)
        word_.compare_exchange_strong(now, 0);  // the holder died: its descriptor was not entered yet
    }
  }
  ~TableLock() {
    word_.store(0, std::memory_order_release);
    ::syscall(SYS_futex, &word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  TableLock(const TableLock&) = delete;
  TableLock& operator=(const TableLock&) = delete;

 private:
  std::atomic<uint32_t>& word_;
};

RegionDescriptor* descriptors(const StateSegment& segment) { return static_cast<RegionDescriptor*>(segment.area(Area::Regions)); }
std::atomic<uint32_t>* runs(const StateSegment& segment) { return static_cast<std::atomic<uint32_t>*>(segment.area(Area::Runs)); }

struct RunSpan {
  uint64_t first, end;
};
RunSpan runs_of(const RegionDescriptor& region) {
  return {region.offset >> kRunShift, (region.end() + kRunBytes - 1) >> kRunShift};
}

}  // namespace

RegionTable::RegionTable(const StateSegment& segment) : segment_(&segment) {}

RegionDescriptor* RegionTable::find(WindowOffset at) const {
  if (at >= segment_->header().window_bytes) return nullptr;
  const uint32_t index = runs(*segment_)[at >> kRunShift].load(std::memory_order_acquire);
  return index == 0 ? nullptr : descriptors(*segment_) + (index - 1);
}

Result<RegionDescriptor*> RegionTable::insert(const RegionDescriptor& descriptor) const {
  const RunSpan span = runs_of(descriptor);
  if (descriptor.offset % kRunBytes != 0 || descriptor.bytes == 0 || descriptor.end() > segment_->header().window_bytes ||
      descriptor.end() <= descriptor.offset)
    return error(Status::InvalidArgument, "region of {} bytes at offset 0x{:x}", descriptor.bytes, descriptor.offset);
  const TableLock lock(segment_->header().region_lock);
  for (uint64_t run = span.first; run < span.end; run++)
    if (runs(*segment_)[run].load(std::memory_order_relaxed) != 0)
      return error(Status::InvalidArgument, "the range at offset 0x{:x} is taken by another region", descriptor.offset);
  uint32_t slot = 0;
  const uint32_t used = segment_->header().region_count.load(std::memory_order_relaxed);
  while (slot < used && descriptors(*segment_)[slot].state != RegionState::Free) slot++;
  if (slot == kMaxRegions) return error(Status::OutOfMemory, "{} regions are in use, the most this version keeps", kMaxRegions);
  if (slot == used) segment_->header().region_count.store(used + 1, std::memory_order_relaxed);
  RegionDescriptor* entry = descriptors(*segment_) + slot;
  *entry = descriptor;
  if (entry->state == RegionState::Free) entry->state = RegionState::Live;
  for (uint64_t run = span.first; run < span.end; run++) runs(*segment_)[run].store(slot + 1, std::memory_order_release);
  return entry;
}

void RegionTable::erase(RegionDescriptor* descriptor) const {
  const RunSpan span = runs_of(*descriptor);
  const TableLock lock(segment_->header().region_lock);
  for (uint64_t run = span.first; run < span.end; run++) runs(*segment_)[run].store(0, std::memory_order_release);
  descriptor->state = RegionState::Free;
}

uint32_t RegionTable::regions_in_use() const {
  uint32_t count = 0;
  const uint32_t used = segment_->header().region_count.load(std::memory_order_relaxed);
  for (uint32_t slot = 0; slot < used; slot++) count += descriptors(*segment_)[slot].state != RegionState::Free;
  return count;
}

}  // namespace farpage::memory
