// This rank's heap: its arena and slabs joined to the node. Any thread; one lock, never held while a call waits for another
// domain or global memory is touched.
#pragma once

#include <mutex>
#include <unordered_set>

#include "allocator/arena.hpp"
#include "allocator/slab.hpp"
#include "runtime/engine/node.hpp"

namespace farpage::api {

class Heap {
 public:
  explicit Heap(engine::Node& node);

  /// A small object, or a region of its own, COHERENT and LOCAL. The caller clears it unless it is fresh.
  Result<allocator::Object> allocate(uint64_t bytes);
  /// A region as `wanted` says; offset, owner and generation are filled in here.
  Result<WindowOffset> allocate_region(memory::RegionDescriptor wanted);
  /// What allocate or allocate_region of any rank has returned.
  Result<> free(WindowOffset offset);

 private:
  void drain_mailbox();
  bool poisoned(const allocator::Extent& extent) const;
  Result<allocator::Object> allocate_small(uint64_t bytes);
  Result<> free_small(WindowOffset object);

  engine::Node& node_;
  std::mutex mutex_;
  allocator::Arena arena_;
  allocator::Slabs slabs_;
};

}  // namespace farpage::api
