// Why blocks were poisoned: a small ring in the state segment. Written by the lane before the poison, read by the SIGBUS
// handler of the rank that hit it (so: no lock, no heap on either side).
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/memory/page_tables.hpp"
#include "runtime/memory/state_segment.hpp"

namespace farpage::memory {

struct PoisonReason {
  Range range;
  Status status;
  char text[156];
};

/// The lane's alone. `thread`: the one that gets a signal instead of poison (a mapped page cannot be poisoned); 0: poison.
void log_poison(const StateSegment& segment, RankSlot rank, Range range, Status status, const char* reason, uint32_t thread = 0);
/// The newest record for this rank that covers `at`. Async-signal-safe. False: none (any more).
bool find_poison(const StateSegment& segment, RankSlot rank, WindowOffset at, PoisonReason& out);

/// The newest record for this thread. Async-signal-safe.
bool find_signalled(const StateSegment& segment, RankSlot rank, uint32_t thread, PoisonReason& out);

}  // namespace farpage::memory
