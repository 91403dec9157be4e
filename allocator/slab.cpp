#include "allocator/slab.hpp"

#include <algorithm>
#include <bit>

#include "runtime/base/check.hpp"

namespace farpage::allocator {

Slabs::Slabs() {
  for (uint32_t bytes = 16; bytes <= 128; bytes += 16) class_bytes_.push_back(bytes);
  for (uint32_t base = 128; base < kMaxSmallBytes; base *= 2)
    for (uint32_t quarter = 1; quarter <= 4; quarter++) {
      const uint64_t bytes = base + base / 4 * quarter;
      class_bytes_.push_back(static_cast<uint32_t>(bytes >= kPageBytes ? round_up(bytes, kPageBytes) : bytes));
    }
  class_bytes_.erase(std::unique(class_bytes_.begin(), class_bytes_.end()), class_bytes_.end());
  with_room_.resize(class_bytes_.size());
}

uint32_t Slabs::class_of(uint64_t bytes) const {
  return static_cast<uint32_t>(std::lower_bound(class_bytes_.begin(), class_bytes_.end(), bytes) - class_bytes_.begin());
}

const Slabs::Slab* Slabs::find(WindowOffset offset) const {
  const auto at = slabs_.find(round_down(offset, kRunBytes));
  return at == slabs_.end() ? nullptr : &at->second;
}

std::optional<Object> Slabs::allocate(uint64_t bytes) {
  DSM_CHECK(bytes != 0 && bytes <= kMaxSmallBytes);
  const uint32_t index = class_of(bytes);
  if (with_room_[index].empty()) return std::nullopt;
  const WindowOffset begin = *with_room_[index].begin();
  Slab& slab = slabs_.at(begin);
  for (size_t word = 0;; word++) {
    if (slab.taken[word] == ~uint64_t{0}) continue;
    const auto bit = static_cast<uint32_t>(std::countr_one(slab.taken[word]));
    slab.taken[word] |= uint64_t{1} << bit;
    if (++slab.used == slab.capacity) with_room_[index].erase(begin);
    const auto number = static_cast<uint32_t>(word * 64 + bit);
    const bool fresh = number >= slab.touched;
    if (fresh) slab.touched = number + 1;
    return Object{begin + number * uint64_t{class_bytes_[index]}, fresh};
  }
}

void Slabs::add_slab(WindowOffset offset, uint64_t bytes) {
  const uint32_t index = class_of(bytes);
  const auto capacity = static_cast<uint32_t>(kRunBytes / class_bytes_[index]);
  Slab slab{index, capacity, 0, 0, std::vector<uint64_t>((capacity + 63) / 64)};
  if (capacity % 64 != 0) slab.taken.back() = ~uint64_t{0} << capacity % 64;  // beyond the last object
  DSM_CHECK(slabs_.emplace(offset, std::move(slab)).second, "slab at 0x{:x}", offset);
  with_room_[index].insert(offset);
}

Result<> Slabs::free(WindowOffset object) {
  const WindowOffset begin = round_down(object, kRunBytes);
  const auto at = slabs_.find(begin);
  if (at == slabs_.end()) return error(Status::OutOfRange, "no object at offset 0x{:x}", object);
  Slab& slab = at->second;
  const uint64_t size = class_bytes_[slab.class_index], number = (object - begin) / size;
  if ((object - begin) % size != 0 || number >= slab.capacity)
    return error(Status::OutOfRange, "offset 0x{:x} is {} bytes inside an object", object, (object - begin) % size);
  uint64_t& word = slab.taken[number / 64];
  const uint64_t bit = uint64_t{1} << number % 64;
  if ((word & bit) == 0) return error(Status::Freed, "the object at offset 0x{:x} is free already", object);
  word &= ~bit;
  slab.used--;
  with_room_[slab.class_index].insert(begin);
  return success();
}

std::optional<WindowOffset> Slabs::take_empty(WindowOffset object) {
  const WindowOffset begin = round_down(object, kRunBytes);
  const auto at = slabs_.find(begin);
  if (at == slabs_.end() || at->second.used != 0) return std::nullopt;
  std::set<WindowOffset>& room = with_room_[at->second.class_index];
  if (room.size() < 2) return std::nullopt;
  room.erase(begin);
  slabs_.erase(at);
  return begin;
}

uint64_t Slabs::object_bytes(WindowOffset offset) const {
  const Slab* slab = find(offset);
  if (slab == nullptr) return 0;
  const uint64_t size = class_bytes_[slab->class_index], number = (offset % kRunBytes) / size;
  if ((offset % kRunBytes) % size != 0 || number >= slab->capacity) return 0;
  return (slab->taken[number / 64] >> number % 64 & 1) != 0 ? size : 0;
}

}  // namespace farpage::allocator
