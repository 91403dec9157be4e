// A region: one allocation, and the arithmetic that finds the home of each of its blocks. Descriptors are plain values; they
// lie in the region table (region_table.hpp) and travel between domains as bytes.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/ids.hpp"
#include "runtime/base/units.hpp"

namespace farpage::memory {

enum class Consistency : uint8_t { Coherent = 0, Release = 1, Immutable = 2, Uncached = 3 };  // = dsm_consistency_t
enum class Placement : uint8_t { Local = 0, AtRank = 1, Interleave = 2, Slices = 3 };          // = dsm_placement_t
enum class RegionState : uint8_t { Free = 0, Live = 1, Published = 2, Freeing = 3 };

/// The state of a region in the table: the lane changes it while any thread of the domain reads it. A plain byte to copy.
class SharedRegionState {
 public:
  SharedRegionState(RegionState state = RegionState::Free) : state_(state) {}
  operator RegionState() const { return __atomic_load_n(&state_, __ATOMIC_ACQUIRE); }
  SharedRegionState& operator=(RegionState state) {
    __atomic_store_n(&state_, state, __ATOMIC_RELEASE);
    return *this;
  }

 private:
  RegionState state_;
};

inline constexpr uint32_t kMaxSlices = 64;

struct Slice {
  uint16_t rank = 0;
  uint16_t pad[3] = {};
  uint64_t first_byte = 0;  // from the region's begin, a multiple of the block size; the next slice's first_byte ends it
};

struct RegionDescriptor {
  WindowOffset offset = 0;   // a multiple of kRunBytes
  uint64_t bytes = 0;        // as asked; blocks cover round_up(bytes, block)
  uint32_t generation = 0;   // of the address range: bumped by every free
  uint16_t owner_rank = 0;   // whose arena; its domain keeps the domain set
  uint8_t block_shift = 12;
  Consistency consistency = Consistency::Coherent;
  Placement placement = Placement::Local;
  SharedRegionState state;
  bool slab = false;         // holds small objects
  uint8_t pad0 = 0;
  uint16_t home_rank = 0;    // Local, AtRank
  uint16_t slices = 0;       // Slices: used entries
  uint64_t interleave_bytes = 0;  // Interleave: a multiple of the block size; chunk i lives at rank i mod ranks
  uint32_t ranks = 0;        // of the job
  uint32_t pad1 = 0;
  uint64_t domain_set = 0;   // at the owner: domains that hold this descriptor
  std::array<Slice, kMaxSlices> slice{};

  uint64_t block_bytes() const { return uint64_t{1} << block_shift; }
  uint64_t blocks() const { return (bytes + block_bytes() - 1) >> block_shift; }
  WindowOffset end() const { return offset + round_up(bytes, block_bytes()); }
  bool contains(WindowOffset at) const { return at >= offset && at < end(); }
  uint64_t block_of(WindowOffset at) const { return (at - offset) >> block_shift; }
  WindowOffset block_offset(uint64_t block) const { return offset + (block << block_shift); }
  /// Index into the sparse per-block arrays (directory, agent entries, block maps): exactly one slot a block.
  uint64_t slot(uint64_t block) const { return (offset >> kPageShift) + block; }

  /// The rank whose memory is the home of `block`.
  RankId home_of(uint64_t block) const;
  /// Blocks from `block` on (at least 1) that have the same home rank, contiguous.
  uint64_t blocks_with_same_home(uint64_t block) const;
};
static_assert(std::is_trivially_copyable_v<RegionDescriptor>);

}  // namespace farpage::memory
