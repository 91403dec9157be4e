#include "runtime/memory/region.hpp"

#include <algorithm>

namespace farpage::memory {
namespace {
// The last slice that begins at or before `byte`.
uint32_t slice_of(const RegionDescriptor& region, uint64_t byte) {
  uint32_t low = 0, high = region.slices;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (region.slice[middle].first_byte <= byte ? low : high) = middle;
  }
  return low;
}
}  // namespace

RankId RegionDescriptor::home_of(uint64_t block) const {
  switch (placement) {
    case Placement::Local:
    case Placement::AtRank: return RankId{home_rank};
    case Placement::Interleave:
      return RankId{static_cast<uint16_t>(((block << block_shift) / interleave_bytes) % ranks)};
    case Placement::Slices: return RankId{slice[slice_of(*this, block << block_shift)].rank};
  }
  return RankId{home_rank};
}

uint64_t RegionDescriptor::blocks_with_same_home(uint64_t block) const {
  const uint64_t left = blocks() - block;
  const uint64_t byte = block << block_shift;
  switch (placement) {
    case Placement::Local:
    case Placement::AtRank: return left;
    case Placement::Interleave: return std::min(left, (interleave_bytes - byte % interleave_bytes) >> block_shift);
    case Placement::Slices: {
      const uint32_t at = slice_of(*this, byte);
      if (at + 1 == slices) return left;
      return std::min(left, (slice[at + 1].first_byte - byte) >> block_shift);
    }
  }
  return left;
}

}  // namespace farpage::memory
