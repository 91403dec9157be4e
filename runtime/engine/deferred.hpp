// Requests that wait at the home: for the end of the transaction before them (coherence), or for the publishing of their
// region (IMMUTABLE). Lists by block, oldest first, in a pool that holds all requests that peers can have under way.
// One lane's: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/coherence/message.hpp"
#include "runtime/engine/slot_map.hpp"

namespace farpage::engine {

class Deferred {
 public:
  explicit Deferred(uint32_t capacity);

  void add(uint64_t slot, const coherence::Message& message);
  /// The oldest request of the block, taken out.
  std::optional<coherence::Message> take(uint64_t slot);
  /// Forgets the requests of blocks for which `gone(slot)` holds.
  template <class Gone>
  void drop_if(Gone&& gone) {
    for (bool again = true; again;) {
      uint64_t victim = UINT64_MAX;
      lists_.for_each([&](uint64_t slot, const List&) { victim = gone(slot) ? slot : victim; });
      again = victim != UINT64_MAX;
      while (again && take(victim)) {
      }
    }
  }
  /// Slots with requests for which `wanted(slot)` holds, one of them; nothing when there is none.
  template <class Wanted>
  std::optional<uint64_t> find_slot(Wanted&& wanted) {
    std::optional<uint64_t> found;
    lists_.for_each([&](uint64_t slot, const List&) {
      if (!found && wanted(slot)) found = slot;
    });
    return found;
  }
  uint32_t size() const { return used_; }

 private:
  static constexpr uint32_t kEnd = 0xffff'ffff;
  struct Node {
    coherence::Message message;
    uint32_t next;
  };
  struct List {
    uint32_t first = kEnd, last = kEnd;
  };
  std::vector<Node> nodes_;
  SlotMap<List> lists_;
  uint32_t free_ = kEnd;
  uint32_t used_ = 0;
};

}  // namespace farpage::engine
