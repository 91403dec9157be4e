// A list of actions of fixed size: what a step of a table wants done, in order. No heap.
#pragma once

#include <cstdint>

namespace farpage::coherence {

template <class Action, uint32_t kCapacity>
struct ActionList {
  Action actions[kCapacity] = {};
  uint32_t count = 0;

  void add(Action action) { actions[count++] = action; }
  const Action* begin() const { return actions; }
  const Action* end() const { return actions + count; }
  bool has(Action wanted) const {
    for (const Action action : *this)
      if (action == wanted) return true;
    return false;
  }
};

/// Rows of a table: every (state, event) exactly once.
template <class Row, uint32_t kRows>
constexpr bool is_total(const Row (&rows)[kRows], uint32_t states, uint32_t events) {
  if (kRows != states * events) return false;
  for (uint32_t state = 0; state < states; state++) {
    for (uint32_t event = 0; event < events; event++) {
      uint32_t found = 0;
      for (const Row& row : rows)
        found += static_cast<uint32_t>(row.in) == state && static_cast<uint32_t>(row.on) == event;
      if (found != 1) return false;
    }
  }
  return true;
}

}  // namespace farpage::coherence
