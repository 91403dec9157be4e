#include "runtime/engine/deferred.hpp"

#include <bit>

namespace farpage::engine {

Deferred::Deferred(uint32_t capacity) : nodes_(capacity), lists_(std::bit_ceil(uint64_t{capacity}) * 2) {
  for (uint32_t i = capacity; i-- > 0;) {
    nodes_[i].next = free_;
    free_ = i;
  }
}

void Deferred::add(uint64_t slot, const coherence::Message& message) {
  DSM_CHECK(free_ != kEnd, "{} deferred requests", used_);
  const uint32_t node = free_;
  free_ = nodes_[node].next;
  nodes_[node] = {message, kEnd};
  used_++;
  List* list = lists_.find(slot);
  if (list == nullptr) list = &lists_.insert(slot, {});
  (list->first == kEnd ? list->first : nodes_[list->last].next) = node;
  list->last = node;
}

std::optional<coherence::Message> Deferred::take(uint64_t slot) {
  List* list = lists_.find(slot);
  if (list == nullptr) return std::nullopt;
  const uint32_t node = list->first;
  const coherence::Message message = nodes_[node].message;
  list->first = nodes_[node].next;
  if (list->first == kEnd) lists_.erase(slot);
  nodes_[node].next = free_;
  free_ = node;
  used_--;
  return message;
}

}  // namespace farpage::engine
