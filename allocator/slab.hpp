// Small objects: slabs of 2 MiB, each of one size class, with a bit an object. Sizes up to 32 KiB; classes are 16-byte steps
// up to 128 bytes, then four per doubling; from 4 KiB on objects are page-aligned. Only arithmetic on offsets: free objects are not
// threaded through global memory. Not thread-safe: the heap locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/units.hpp"

namespace farpage::allocator {

inline constexpr uint64_t kMaxSmallBytes = 32_KiB;

struct Object {
  WindowOffset offset = 0;
  bool fresh = true;  // handed out for the first time: still the zeros of its region
};

class Slabs {
 public:
  Slabs();

  /// An object of at least `bytes` (1 .. kMaxSmallBytes); nothing when every slab of the class is full: add_slab, then again.
  std::optional<Object> allocate(uint64_t bytes);
  /// A new slab for the class of `bytes`: kRunBytes of address space at `offset`.
  void add_slab(WindowOffset offset, uint64_t bytes);
  /// OutOfRange: no object begins there; Freed: it is free already.
  Result<> free(WindowOffset object);
  /// A slab that holds nothing while its class has another with room: it is forgotten, its range is the caller's again.
  std::optional<WindowOffset> take_empty(WindowOffset object);
  bool owns(WindowOffset offset) const { return find(offset) != nullptr; }
  /// Bytes of the object that begins at `offset`; 0 if none does.
  uint64_t object_bytes(WindowOffset offset) const;

 private:
  struct Slab {
    uint32_t class_index;
    uint32_t capacity;
    uint32_t used;
    uint32_t touched;            // objects from here on were never handed out
    std::vector<uint64_t> taken;  // a bit an object
  };
  uint32_t class_of(uint64_t bytes) const;
  const Slab* find(WindowOffset offset) const;
  std::vector<uint32_t> class_bytes_;
  std::map<WindowOffset, Slab> slabs_;
  std::vector<std::set<WindowOffset>> with_room_;  // by class
};

}  // namespace farpage::allocator
