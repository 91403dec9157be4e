// The regions that a domain knows, in the state segment: 4 bytes per 2 MiB run give the descriptor of an address with one
// load. Any rank of the domain looks up without a lock; creating and erasing takes a short futex lock (never held while
// global memory or user memory is touched). Descriptors are immutable while Live, except `state` and `domain_set` (lane).
#pragma once

#include <cstdint>

#include "runtime/base/result.hpp"
#include "runtime/memory/region.hpp"
#include "runtime/memory/state_segment.hpp"

namespace farpage::memory {

class RegionTable {
 public:
  explicit RegionTable(const StateSegment& segment);

  /// The descriptor whose runs hold `at`, or nullptr. It may be Freeing; `at` may lie beyond its end (the tail of a run).
  RegionDescriptor* find(WindowOffset at) const;

  /// Enters a descriptor and makes its runs point to it. OutOfMemory when the table is full; InvalidArgument when a run is
  /// taken by another live region.
  Result<RegionDescriptor*> insert(const RegionDescriptor& descriptor) const;

  /// Clears the runs and the descriptor's slot.
  void erase(RegionDescriptor* descriptor) const;

  /// Generation that the next region at this address gets; bumped by the owner's erase.
  uint32_t regions_in_use() const;

 private:
  const StateSegment* segment_;
};

}  // namespace farpage::memory
