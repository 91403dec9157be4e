#include "runtime/engine/block_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/base/units.hpp"

namespace farpage::engine {
namespace {
size_t class_of(uint64_t block_bytes) { return log2_exact(block_bytes) - kPageShift; }
}  // namespace

BlockPool::~BlockPool() {
  for (const Chunk& chunk : chunks_) ::munmap(chunk.begin, chunk.bytes);
}

std::byte* BlockPool::take(uint64_t block_bytes) {
  FreeList& list = free_[class_of(block_bytes)];
  if (list.first == nullptr) {
    const uint64_t bytes = std::max<uint64_t>(block_bytes, 1_MiB);
    void* chunk = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    DSM_CHECK(chunk != MAP_FAILED, "no memory for {} bytes of block buffers", bytes);
    chunks_.push_back({chunk, bytes});
    mapped_bytes_ += bytes;
    for (uint64_t at = 0; at < bytes; at += block_bytes) give(static_cast<std::byte*>(chunk) + at, block_bytes);
  }
  std::byte* bytes = list.first;
  std::memcpy(&list.first, bytes, sizeof list.first);
  return bytes;
}

void BlockPool::give(std::byte* bytes, uint64_t block_bytes) {
  FreeList& list = free_[class_of(block_bytes)];
  std::memcpy(bytes, &list.first, sizeof list.first);
  list.first = bytes;
}

}  // namespace farpage::engine
