// Spreading a file over ranks: every byte has one home, shares are equal but for one unit, boundaries are on blocks.
#include "runtime/weights/slices.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

namespace farpage::weights {
namespace {

TEST_CASE("slices: cover the file in order, on block boundaries, each rank at most once") {
  for (const uint64_t bytes :
       {uint64_t{1}, 64_KiB - 1, 64_KiB, 64_KiB + 1, 10_MiB + 3, uint64_t{90868376 - 11416}, 64_GiB + 7})
    for (const uint32_t ranks : {1u, 2u, 3u, 4u, 64u, 65u, 1000u})
      for (const uint64_t block : {4_KiB, 64_KiB, 2_MiB}) {
        CAPTURE(bytes);
        CAPTURE(ranks);
        CAPTURE(block);
        const auto region = spread(bytes, ranks, block);
        REQUIRE(region.slices >= 1);
        REQUIRE(region.slices <= memory::kMaxSlices);
        CHECK(region.slice[0].first_byte == 0);
        std::set<uint16_t> seen;
        for (uint32_t i = 0; i < region.slices; i++) {
          CHECK(region.slice[i].rank < ranks);
          CHECK(seen.insert(region.slice[i].rank).second);
          CHECK(region.slice[i].first_byte % block == 0);
          const uint64_t end = i + 1 < region.slices ? region.slice[i + 1].first_byte : bytes;
          CHECK(end > region.slice[i].first_byte);
        }
      }
}

TEST_CASE("slices: shares differ by one block, or by one run where ranks have eight") {
  const auto shares = [](uint64_t bytes, uint32_t ranks) {
    const auto region = spread(bytes, ranks, 64_KiB);
    uint64_t least = UINT64_MAX, most = 0;
    CHECK(region.slices == ranks);
    for (uint32_t i = 0; i < region.slices; i++) {
      const uint64_t end = i + 1 < region.slices ? region.slice[i + 1].first_byte : round_up(bytes, 64_KiB);
      least = std::min(least, end - region.slice[i].first_byte);
      most = std::max(most, end - region.slice[i].first_byte);
    }
    return most - least;
  };
  CHECK(shares(15_MiB, 4) <= 64_KiB);
  CHECK(shares(90_MiB, 4) <= 2_MiB);
  CHECK(spread(90_MiB, 4, 64_KiB).slice[1].first_byte % 2_MiB == 0);
}

}  // namespace
}  // namespace farpage::weights
