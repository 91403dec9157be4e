// What a process does when an access to global memory cannot be served: one line that names address, region, block and
// cause, then death by the signal, as without us. Copies made on behalf of a call (dsm_get, dsm_put) survive: they return a
// status instead.
//
// install_fault_report is called once by dsm_init (the previous handlers are kept and get what is not ours);
// guarded_copy by any thread.
#pragma once

#include <cstddef>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/memory/region_table.hpp"
#include "runtime/memory/state_segment.hpp"
#include "runtime/memory/window.hpp"

namespace farpage::memory {

/// The objects must stay until remove_fault_report.
void install_fault_report(const Window& window, const StateSegment& segment, const RegionTable& regions, RankId rank, RankSlot slot);
void remove_fault_report();

/// memcpy in which either side may be global memory. Ok, or why an access could not be served (Freed, TimedOut, OutOfRange,
/// Unsupported, PeerLost); part of the bytes may have been copied then.
Status guarded_copy(void* dst, const void* src, size_t bytes);

}  // namespace farpage::memory
