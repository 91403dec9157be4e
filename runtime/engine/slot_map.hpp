// A small hash map from block slot to a value, open addressing, no heap after construction. One thread. The engine keeps few
// blocks in such maps: those with bytes under way, deferred requests, assemblies.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/check.hpp"

namespace farpage::engine {

template <class Value>
class SlotMap {
 public:
  /// `capacity`: a power of two, at least twice the most entries ever held.
  explicit SlotMap(uint64_t capacity) : entries_(capacity) {}

  Value* find(uint64_t slot) {
    for (uint64_t at = hash(slot);; at = next(at)) {
      if (!entries_[at].used) return nullptr;
      if (entries_[at].slot == slot) return &entries_[at].value;
    }
  }

  Value& insert(uint64_t slot, Value value) {
    DSM_CHECK(size_ * 2 < entries_.size(), "{} blocks under way", size_);
    uint64_t at = hash(slot);
    while (entries_[at].used) {
      DSM_CHECK(entries_[at].slot != slot, "slot 0x{:x}", slot);
      at = next(at);
    }
    entries_[at] = {slot, true, std::move(value)};
    size_++;
    return entries_[at].value;
  }

  void erase(uint64_t slot) {
    uint64_t at = hash(slot);
    while (!(entries_[at].used && entries_[at].slot == slot)) {
      DSM_CHECK(entries_[at].used, "slot 0x{:x}", slot);
      at = next(at);
    }
    // Close the gap: entries behind it that hash to it or before move up.
    uint64_t gap = at;
    for (uint64_t probe = next(at); entries_[probe].used; probe = next(probe)) {
      const uint64_t ideal = hash(entries_[probe].slot);
      const bool between = gap <= probe ? (gap < ideal && ideal <= probe) : (gap < ideal || ideal <= probe);
      if (between) continue;
      entries_[gap] = std::move(entries_[probe]);
      gap = probe;
    }
    entries_[gap] = Entry{};
    size_--;
  }

  uint64_t size() const { return size_; }

  /// Calls `visit(slot, value)` for each entry; `visit` must not change the map.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (Entry& entry : entries_)
      if (entry.used) visit(entry.slot, entry.value);
  }

 private:
  struct Entry {
    uint64_t slot = 0;
    bool used = false;
    Value value{};
  };
  uint64_t hash(uint64_t slot) const { return (slot * 0x9e3779b97f4a7c15ull >> 32) & (entries_.size() - 1); }
  uint64_t next(uint64_t at) const { return (at + 1) & (entries_.size() - 1); }
  std::vector<Entry> entries_;
  uint64_t size_ = 0;
};

}  // namespace farpage::engine
