// The address ranges of one rank's arena, in runs of 2 MiB: best fit, coalescing on free, and a generation a range that grows
// with every free, so that a reused address is told from the old one. Only arithmetic on offsets: global memory is never
// touched. Not thread-safe: the heap locks.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace farpage::allocator {

struct Extent {
  WindowOffset offset = 0;
  uint64_t bytes = 0;  // a multiple of kRunBytes
  uint32_t generation = 0;
};

class Arena {
 public:
  Arena(WindowOffset begin, uint64_t bytes);

  /// Room for `bytes`, rounded up to runs. OutOfMemory names the largest free range.
  Result<Extent> allocate(uint64_t bytes);
  /// Gives a range back. OutOfRange: nothing was allocated at `offset`.
  Result<> free(WindowOffset offset);

  /// The allocated extent that begins at `offset`; nullptr if none.
  const Extent* find(WindowOffset offset) const;
  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t free_ranges() const { return free_.size(); }

 private:
  struct Range {
    uint64_t bytes;
    uint32_t generation;  // the highest of all that were freed into it
  };
  using Free = std::map<WindowOffset, Range>;
  void add_free(WindowOffset offset, Range range);
  void remove_free(Free::iterator at);
  Free free_;
  std::set<std::pair<uint64_t, WindowOffset>> by_size_;
  std::map<WindowOffset, Extent> used_;
  uint64_t free_bytes_ = 0;
};

}  // namespace farpage::allocator
