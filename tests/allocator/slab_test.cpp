// The slabs against a model: objects never overlap, are aligned, and come back only after their free; wrong pointers are told
// apart; memory that was used before says so. Seeds are fixed.
#include "allocator/slab.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

using namespace farpage;
using allocator::kMaxSmallBytes;
using allocator::Object;
using allocator::Slabs;

namespace {

// Slabs with address space that never ends.
struct Heap {
  Slabs slabs;
  WindowOffset next = 8 * kRunBytes;
  uint64_t regions = 0;
  Object allocate(uint64_t bytes) {
    if (const auto object = slabs.allocate(bytes)) return *object;
    slabs.add_slab(next, bytes);
    next += kRunBytes;
    regions++;
    const auto object = slabs.allocate(bytes);
    REQUIRE(object.has_value());
    return *object;
  }
};

}  // namespace

TEST_CASE("slabs: random objects never overlap, are aligned, and are fresh only once") {
  for (const unsigned seed : {5u, 6u, 7u}) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Heap heap;
    std::map<WindowOffset, uint64_t> live;
    std::set<WindowOffset> used_before;
    for (int step = 0; step < 20000; step++) {
      if (live.empty() || random() % 100 < 52) {
        const uint64_t bytes = 1 + random() % (random() % 4 == 0 ? kMaxSmallBytes : 300);
        const Object object = heap.allocate(bytes);
        const uint64_t size = heap.slabs.object_bytes(object.offset);
        REQUIRE(size >= bytes);
        REQUIRE(object.offset % (bytes >= kPageBytes ? kPageBytes : 16) == 0);
        const auto next = live.lower_bound(object.offset);
        if (next != live.end()) REQUIRE(object.offset + size <= next->first);
        if (next != live.begin()) REQUIRE(std::prev(next)->first + std::prev(next)->second <= object.offset);
        REQUIRE(object.fresh == used_before.insert(object.offset).second);
        live.emplace(object.offset, size);
      } else {
        const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
        REQUIRE(heap.slabs.free(victim->first).ok());
        REQUIRE(heap.slabs.free(victim->first).status() == Status::Freed);
        REQUIRE(heap.slabs.object_bytes(victim->first) == 0);
        live.erase(victim);
      }
    }
  }
}

TEST_CASE("slabs: a size class wastes less than a quarter of an object above 128 bytes, 15 bytes below") {
  Heap heap;
  for (uint64_t bytes = 1; bytes < kPageBytes; bytes++) {
    const uint64_t size = heap.slabs.object_bytes(heap.allocate(bytes).offset);
    REQUIRE(size >= bytes);
    REQUIRE(size - bytes <= (bytes <= 128 ? 15 : size / 4));
  }
  CHECK(heap.slabs.object_bytes(heap.allocate(kPageBytes).offset) == kPageBytes);
  CHECK(heap.slabs.object_bytes(heap.allocate(kMaxSmallBytes).offset) == kMaxSmallBytes);
}

TEST_CASE("slabs: a slab holds all that fits into 2 MiB before another is asked for") {
  Heap heap;
  for (uint64_t i = 0; i < kRunBytes / 64; i++) heap.allocate(64);
  CHECK(heap.regions == 1);
  heap.allocate(64);
  CHECK(heap.regions == 2);
}

TEST_CASE("slabs: foreign and inner pointers are refused") {
  Heap heap;
  const Object object = heap.allocate(100);
  CHECK(heap.slabs.free(object.offset + 16).status() == Status::OutOfRange);
  CHECK(heap.slabs.free(object.offset + 7 * kRunBytes).status() == Status::OutOfRange);
  CHECK(heap.slabs.free(object.offset + heap.slabs.object_bytes(object.offset)).status() == Status::Freed);  // never handed out
  CHECK(heap.slabs.owns(object.offset + kRunBytes - 1));
  CHECK(!heap.slabs.owns(object.offset + kRunBytes));
  CHECK(heap.slabs.free(object.offset).ok());
}

TEST_CASE("slabs: an empty slab is given back while its class has another with room") {
  Heap heap;
  const uint64_t count = kRunBytes / kMaxSmallBytes;
  std::vector<WindowOffset> objects;
  for (uint64_t i = 0; i < 2 * count; i++) objects.push_back(heap.allocate(kMaxSmallBytes).offset);
  REQUIRE(heap.regions == 2);
  for (uint64_t i = 0; i < count; i++) REQUIRE(heap.slabs.free(objects[i]).ok());
  CHECK(!heap.slabs.take_empty(objects[0]));  // the other is full: keep this one
  REQUIRE(heap.slabs.free(objects.back()).ok());
  CHECK(!heap.slabs.take_empty(objects.back()));  // not empty
  CHECK(heap.slabs.take_empty(objects[0]) == round_down(objects[0], kRunBytes));
  CHECK(!heap.slabs.owns(objects[0]));
  CHECK(heap.slabs.free(objects[0]).status() == Status::OutOfRange);
}
