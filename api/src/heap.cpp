#include "api/src/heap.hpp"

#include "runtime/base/log.hpp"

namespace farpage::api {

using memory::RegionDescriptor;

Heap::Heap(engine::Node& node)
    : node_(node), arena_(node.arena(node.shape().rank).offset, node.arena(node.shape().rank).bytes) {}

// What others have freed of this rank's memory: regions by their begin, small objects of slabs.
void Heap::drain_mailbox() {
  memory::Mailbox& mailbox = node_.segment().mailbox(node_.shape().slot);
  for (;;) {
    const uint64_t head = mailbox.head.load(std::memory_order_relaxed);
    memory::MailboxEntry& entry = mailbox.entries[head % memory::kMailboxEntries];
    const uint64_t offset_plus_one = entry.offset_plus_one.load(std::memory_order_acquire);
    if (offset_plus_one == 0) return;
    entry.offset_plus_one.store(0, std::memory_order_release);
    mailbox.head.store(head + 1, std::memory_order_relaxed);
    const WindowOffset offset = offset_plus_one - 1;
    if (slabs_.owns(offset)) {
      if (const auto freed = slabs_.free(offset); !freed.ok()) log_warn("an object was freed by another rank: {}", freed.failure().message);
    } else if (node_.regions().find(offset) == nullptr) {  // else an object of a slab that was given back: freed twice
      (void)arena_.free(offset);
    }
  }
}

Result<allocator::Object> Heap::allocate(uint64_t bytes) {
  if (bytes == 0) return error(Status::InvalidArgument, "0 bytes asked for");
  if (bytes <= allocator::kMaxSmallBytes) return allocate_small(bytes);
  RegionDescriptor wanted;
  wanted.bytes = bytes;
  wanted.block_shift = static_cast<uint8_t>(log2_exact(node_.options().coherent_block_bytes));
  wanted.home_rank = node_.shape().rank.value;
  DSM_ASSIGN(const WindowOffset begin, allocate_region(wanted));
  return allocator::Object{begin, true};
}

Result<allocator::Object> Heap::allocate_small(uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    drain_mailbox();
    if (const auto object = slabs_.allocate(bytes)) return *object;
  }
  RegionDescriptor slab;
  slab.bytes = kRunBytes;
  slab.block_shift = static_cast<uint8_t>(log2_exact(node_.options().coherent_block_bytes));
  slab.home_rank = node_.shape().rank.value;
  slab.slab = true;
  DSM_ASSIGN(const WindowOffset begin, allocate_region(slab));
  const std::lock_guard lock(mutex_);
  slabs_.add_slab(begin, bytes);
  return *slabs_.allocate(bytes);
}

bool Heap::poisoned(const allocator::Extent& extent) const {
  for (WindowOffset run = extent.offset; run < extent.offset + extent.bytes; run += kRunBytes)
    if (node_.segment().run_state(run >> kRunShift).poisoned.load(std::memory_order_relaxed) != 0) return true;
  return false;
}

Result<WindowOffset> Heap::allocate_region(RegionDescriptor wanted) {
  allocator::Extent extent;
  {
    const std::lock_guard lock(mutex_);
    drain_mailbox();
    if (wanted.bytes > node_.window().bytes() / 2) return error(Status::OutOfMemory, "{} bytes asked for: more than the window holds", wanted.bytes);
    // Addresses where a stray access has left poison are skipped, and stay taken: there are plenty.
    do {
      DSM_ASSIGN(extent, arena_.allocate(round_up(wanted.bytes, uint64_t{1} << wanted.block_shift)));
    } while (poisoned(extent));
  }
  wanted.offset = extent.offset;
  wanted.generation = extent.generation;
  wanted.owner_rank = node_.shape().rank.value;
  wanted.ranks = node_.shape().ranks;
  wanted.state = memory::RegionState::Live;
  auto created = node_.create_region(wanted);
  if (created.ok()) return extent.offset;
  // A region that other domains had accepted comes back by the mailbox; one that never was is given back here.
  const std::lock_guard lock(mutex_);
  drain_mailbox();
  if (arena_.find(extent.offset) != nullptr && node_.regions().find(extent.offset) == nullptr) (void)arena_.free(extent.offset);
  return created.failure();
}

Result<> Heap::free_small(WindowOffset object) {
  std::optional<WindowOffset> emptied;
  {
    const std::lock_guard lock(mutex_);
    drain_mailbox();
    DSM_TRY(slabs_.free(object));
    emptied = slabs_.take_empty(object);
  }
  return emptied ? node_.free_region(*emptied) : success();
}

Result<> Heap::free(WindowOffset offset) {
  DSM_ASSIGN(RegionDescriptor * region, node_.resolve(offset));
  if (region->slab) {
    if (RankId{region->owner_rank} == node_.shape().rank) return free_small(offset);
    return node_.free_object(offset);
  }
  if (offset != region->offset)
    return error(Status::OutOfRange, "pointer is {} bytes inside a region: free takes its begin", offset - region->offset);
  return node_.free_region(offset);
}

}  // namespace farpage::api
