#include "transport/buffer_pool.hpp"

#include <sys/mman.h>

#include "runtime/base/check.hpp"

namespace farpage::transport {

BufferPool::BufferPool(uint64_t most_buffers, std::function<void(std::byte*, size_t)> on_chunk)
    : most_buffers_(most_buffers), on_chunk_(std::move(on_chunk)) {
  free_.reserve(most_buffers + kChunkBuffers);
  chunks_.reserve(most_buffers / kChunkBuffers + 1);
}

BufferPool::~BufferPool() {
  for (std::byte* chunk : chunks_) ::munmap(chunk, kChunkBuffers * kMaxPayloadBytes);
}

void BufferPool::grow() {
  DSM_CHECK(chunks_.size() * kChunkBuffers < most_buffers_, "{} message buffers in use", most_buffers_);
  const size_t bytes = kChunkBuffers * kMaxPayloadBytes;
  void* chunk = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  DSM_CHECK(chunk != MAP_FAILED, "no memory for {} bytes of message buffers", bytes);
  chunks_.push_back(static_cast<std::byte*>(chunk));
  if (on_chunk_) on_chunk_(chunks_.back(), bytes);
  for (uint64_t i = kChunkBuffers; i-- > 0;) free_.push_back(chunks_.back() + i * kMaxPayloadBytes);
}

PoolBuffer BufferPool::take() {
  if (free_.empty()) grow();
  std::byte* bytes = free_.back();
  free_.pop_back();
  return PoolBuffer(bytes, give_back, this);
}

void BufferPool::give_back(void* pool, std::byte* bytes) { static_cast<BufferPool*>(pool)->free_.push_back(bytes); }

}  // namespace farpage::transport
