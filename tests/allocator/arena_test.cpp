// The arena against a model that keeps every range in a list: no two ranges overlap, the bytes add up, a reused address has a
// higher generation, and what is freed grows together again. Seeds are fixed; a failure names its seed.
#include "allocator/arena.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

#include "runtime/base/units.hpp"

using namespace farpage;
using allocator::Arena;
using allocator::Extent;

namespace {

constexpr WindowOffset kBegin = 64 * kRunBytes;
constexpr uint64_t kRuns = 96;

Extent take(Arena& arena, uint64_t bytes) {
  auto extent = arena.allocate(bytes);
  REQUIRE(extent.ok());
  return *extent;
}

}  // namespace

TEST_CASE("arena: random allocation and free never overlap and end in one free range") {
  for (const unsigned seed : {1u, 2u, 3u, 17u, 4711u}) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Arena arena(kBegin, kRuns * kRunBytes);
    std::map<WindowOffset, Extent> live;
    std::vector<uint32_t> generation_of_run(kRuns, 0);
    std::vector<bool> ever(kRuns, false);
    uint64_t used = 0, refused = 0;
    for (int step = 0; step < 5000; step++) {
      if (live.empty() || random() % 100 < 55) {
        const uint64_t bytes = 1 + random() % (12 * kRunBytes);
        auto extent = arena.allocate(bytes);
        if (!extent.ok()) {
          CHECK(extent.status() == Status::OutOfMemory);
          refused++;
        } else {
          REQUIRE(extent->offset % kRunBytes == 0);
          REQUIRE(extent->bytes == round_up(bytes, kRunBytes));
          REQUIRE(extent->offset >= kBegin);
          REQUIRE(extent->offset + extent->bytes <= kBegin + kRuns * kRunBytes);
          const auto next = live.lower_bound(extent->offset);
          if (next != live.end()) REQUIRE(extent->offset + extent->bytes <= next->first);
          if (next != live.begin()) REQUIRE(std::prev(next)->first + std::prev(next)->second.bytes <= extent->offset);
          for (uint64_t run = (extent->offset - kBegin) / kRunBytes; run < (extent->offset + extent->bytes - kBegin) / kRunBytes; run++) {
            if (ever[run]) REQUIRE(extent->generation > generation_of_run[run]);
            ever[run] = true;
            generation_of_run[run] = extent->generation;
          }
          live.emplace(extent->offset, *extent);
          used += extent->bytes;
        }
      } else {
        const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
        REQUIRE(arena.free(victim->first).ok());
        REQUIRE(arena.free(victim->first).status() == Status::OutOfRange);
        used -= victim->second.bytes;
        live.erase(victim);
      }
      REQUIRE(arena.free_bytes() == kRuns * kRunBytes - used);
    }
    CHECK(refused > 0);  // the arena was full at times
    for (const auto& [offset, extent] : live) REQUIRE(arena.free(offset).ok());
    CHECK(arena.free_ranges() == 1);
    CHECK(arena.free_bytes() == kRuns * kRunBytes);
    CHECK(take(arena, kRuns * kRunBytes).offset == kBegin);
  }
}

TEST_CASE("arena: the smallest range that fits is taken") {
  Arena arena(kBegin, 10 * kRunBytes);
  const Extent wide = take(arena, 4 * kRunBytes), wall = take(arena, 1), narrow = take(arena, 2 * kRunBytes), rest = take(arena, 3 * kRunBytes);
  REQUIRE(arena.free_bytes() == 0);
  REQUIRE(arena.free(wide.offset).ok());
  REQUIRE(arena.free(narrow.offset).ok());
  CHECK(take(arena, 2 * kRunBytes).offset == narrow.offset);
  CHECK(arena.find(wall.offset) != nullptr);
  CHECK(arena.find(rest.offset + kRunBytes) == nullptr);
}

TEST_CASE("arena: nothing and too much are refused, and the message names the largest free range") {
  Arena arena(kBegin, 4 * kRunBytes + 5);  // the odd bytes are not handed out
  CHECK(arena.free_bytes() == 4 * kRunBytes);
  CHECK(arena.allocate(0).status() == Status::OutOfMemory);
  CHECK(arena.allocate(~uint64_t{0}).status() == Status::OutOfMemory);
  const auto refused = arena.allocate(4 * kRunBytes + 1);
  REQUIRE(!refused.ok());
  CHECK(refused.failure().message.find(std::to_string(4 * kRunBytes)) != std::string::npos);
  CHECK(arena.free(kBegin).status() == Status::OutOfRange);
}
