// The hold: what a thread keeps of the blocks that it was granted, so that it gets to use them before they are recalled.
// One set a thread (per agent would starve, docs/protocol.md), changed by three events: its fault, its wake, its timer.
// Pure: no clock (time comes as the timer event), no heap.
//
// A fault elsewhere empties the set at once, so that a sequential scan delays nobody. Unless the thread has faulted again for
// an access that it was granted since its timer last ran out: then it needs several blocks at once (an access over a block
// edge), and keeps what lies below the new block, at most three; it gives up that block itself and all above.
#pragma once

#include <cstdint>

#include "runtime/coherence/mistakes.hpp"

namespace farpage::coherence {

struct ThreadHold {
  static constexpr uint32_t kMost = 4;     // blocks that one x86 access can need
  static constexpr uint32_t kGrants = 8;   // accesses remembered
  static constexpr uint8_t kMaxBackoff = 7;

  struct Access {
    uint64_t block = 0;
    bool write = false;
    bool operator==(const Access&) const = default;
  };

  uint64_t held[kMost] = {};
  Access since_timer[kGrants] = {};  // granted since the timer last ran out
  Access last = {};                  // the newest grant, whatever the timer did
  uint8_t held_count = 0;
  uint8_t grant_count = 0;
  bool several = false;    // it has shown that it needs several blocks at once
  bool had_grant = false;
  uint8_t backoff = 0;     // the hold lasts base << backoff: grows while the thread faults again on what it just had

  bool holds(uint64_t block) const {
    for (uint32_t i = 0; i < held_count; i++)
      if (held[i] == block) return true;
    return false;
  }
  template <class Inside>
  bool any_of(Inside&& inside) const {
    for (uint32_t i = 0; i < held_count; i++)
      if (inside(held[i])) return true;
    return false;
  }
};

/// Blocks that an event has let go.
struct Released {
  uint64_t blocks[ThreadHold::kMost] = {};
  uint32_t count = 0;
};

struct FaultNote {
  Released released;
  bool wasted;  // the same access had been granted since the timer last ran out
};

/// The thread faults (or waits) for an access. Its timer stops.
FaultNote on_fault(ThreadHold& hold, uint64_t block, bool write);
/// The thread is woken with the access granted. True: the block was not in the set before. Its timer starts.
bool on_wake(ThreadHold& hold, uint64_t block, bool write);
/// The timer has run out, and no fault of the thread is waiting to be read.
Released on_timer(ThreadHold& hold);

}  // namespace farpage::coherence
