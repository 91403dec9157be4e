#include "allocator/arena.hpp"

#include <algorithm>

#include "runtime/base/units.hpp"

namespace farpage::allocator {

Arena::Arena(WindowOffset begin, uint64_t bytes) { add_free(begin, {round_down(bytes, kRunBytes), 0}); }

void Arena::add_free(WindowOffset offset, Range range) {
  // Join with the neighbours on both sides.
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + range.bytes) {
    range = {range.bytes + next->second.bytes, std::max(range.generation, next->second.generation)};
    auto after = std::next(next);
    remove_free(next);
    next = after;
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second.bytes == offset) {
      offset = before->first;
      range = {range.bytes + before->second.bytes, std::max(range.generation, before->second.generation)};
      remove_free(before);
    }
  }
  free_.emplace(offset, range);
  by_size_.emplace(range.bytes, offset);
  free_bytes_ += range.bytes;
}

void Arena::remove_free(Free::iterator at) {
  by_size_.erase({at->second.bytes, at->first});
  free_bytes_ -= at->second.bytes;
  free_.erase(at);
}

Result<Extent> Arena::allocate(uint64_t bytes) {
  const uint64_t largest = by_size_.empty() ? 0 : by_size_.rbegin()->first;
  if (bytes == 0 || bytes > largest)
    return error(Status::OutOfMemory, "{} bytes asked for: the largest free range of this rank's arena has {}", bytes, largest);
  const uint64_t wanted = round_up(bytes, kRunBytes);
  const auto fit = by_size_.lower_bound({wanted, 0});
  const auto at = free_.find(fit->second);
  const WindowOffset offset = at->first;
  const Range range = at->second;
  remove_free(at);
  if (range.bytes > wanted) add_free(offset + wanted, {range.bytes - wanted, range.generation});
  const Extent extent{offset, wanted, range.generation};
  used_.emplace(offset, extent);
  return extent;
}

Result<> Arena::free(WindowOffset offset) {
  const auto at = used_.find(offset);
  if (at == used_.end()) return error(Status::OutOfRange, "nothing is allocated at offset 0x{:x}", offset);
  const Extent extent = at->second;
  used_.erase(at);
  add_free(extent.offset, {extent.bytes, extent.generation + 1});
  return success();
}

const Extent* Arena::find(WindowOffset offset) const {
  const auto at = used_.find(offset);
  return at == used_.end() ? nullptr : &at->second;
}

}  // namespace farpage::allocator
