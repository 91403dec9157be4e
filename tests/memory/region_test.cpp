// The arithmetic that finds a block and its home.
#include "runtime/memory/region.hpp"

#include <doctest/doctest.h>

namespace farpage::memory {
namespace {

RegionDescriptor region_of(uint64_t bytes, uint8_t block_shift) {
  RegionDescriptor region;
  region.offset = 3 * kRunBytes;
  region.bytes = bytes;
  region.block_shift = block_shift;
  return region;
}

// What blocks_with_same_home promises, told by home_of alone.
void check_stretches(const RegionDescriptor& region) {
  for (uint64_t block = 0; block < region.blocks(); block++) {
    const uint64_t stretch = region.blocks_with_same_home(block);
    REQUIRE(stretch >= 1);
    REQUIRE(block + stretch <= region.blocks());
    for (uint64_t other = block; other < block + stretch; other++) REQUIRE(region.home_of(other) == region.home_of(block));
  }
}

TEST_CASE("region: blocks cover the bytes asked for, the last one in part") {
  const RegionDescriptor region = region_of(3 * 65536 + 1, 16);
  CHECK(region.blocks() == 4);
  CHECK(region.end() == region.offset + 4 * 65536);
  CHECK(region.contains(region.end() - 1));
  CHECK_FALSE(region.contains(region.end()));
  CHECK_FALSE(region.contains(region.offset - 1));
  CHECK(region.block_of(region.block_offset(2) + 65535) == 2);
}

TEST_CASE("region: blocks of regions that lie behind each other never share a slot") {
  const RegionDescriptor first = region_of(kRunBytes, 12);
  RegionDescriptor second = region_of(kRunBytes, 16);
  second.offset = first.end();
  CHECK(first.slot(first.blocks() - 1) < second.slot(0));
  CHECK(second.slot(1) == second.slot(0) + 1);
}

TEST_CASE("region: one rank is the home of all blocks where the placement names one") {
  RegionDescriptor region = region_of(100 * kPageBytes, 12);
  region.placement = Placement::AtRank;
  region.home_rank = 5;
  CHECK(region.home_of(0) == RankId{5});
  CHECK(region.blocks_with_same_home(0) == 100);
  CHECK(region.blocks_with_same_home(99) == 1);
}

TEST_CASE("region: interleaved chunks go round the ranks") {
  RegionDescriptor region = region_of(29 * kPageBytes + 5, 12);
  region.placement = Placement::Interleave;
  region.interleave_bytes = 4 * kPageBytes;
  region.ranks = 3;
  for (uint64_t block = 0; block < region.blocks(); block++) CHECK(region.home_of(block).value == block / 4 % 3);
  CHECK(region.blocks_with_same_home(5) == 3);
  CHECK(region.blocks_with_same_home(28) == 2);  // the region ends before the chunk
  check_stretches(region);
}

TEST_CASE("region: slices of any length, the last to the end") {
  RegionDescriptor region = region_of(64 * kPageBytes, 12);
  region.placement = Placement::Slices;
  region.slices = 4;
  const uint64_t first_block[] = {0, 1, 17, 60};
  const uint16_t rank[] = {2, 0, 3, 1};
  for (uint32_t i = 0; i < 4; i++) {
    region.slice[i].rank = rank[i];
    region.slice[i].first_byte = first_block[i] * kPageBytes;
  }
  CHECK(region.home_of(0) == RankId{2});
  CHECK(region.home_of(1) == RankId{0});
  CHECK(region.home_of(16) == RankId{0});
  CHECK(region.home_of(17) == RankId{3});
  CHECK(region.home_of(63) == RankId{1});
  CHECK(region.blocks_with_same_home(1) == 16);
  CHECK(region.blocks_with_same_home(60) == 4);
  check_stretches(region);
}

}  // namespace
}  // namespace farpage::memory
