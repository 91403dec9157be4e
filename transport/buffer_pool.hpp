// Page-aligned buffers of one message piece each. Grows in chunks until its limit, never shrinks before it ends; each chunk is
// announced to `on_chunk` once (registration). One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "transport/transport.hpp"

namespace farpage::transport {

class BufferPool {
 public:
  /// `on_chunk(begin, bytes)` may be empty.
  BufferPool(uint64_t most_buffers, std::function<void(std::byte*, size_t)> on_chunk);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  PoolBuffer take();

 private:
  void grow();
  static void give_back(void* pool, std::byte* bytes);
  static constexpr uint64_t kChunkBuffers = 16;
  uint64_t most_buffers_;
  std::function<void(std::byte*, size_t)> on_chunk_;
  std::vector<std::byte*> chunks_;
  std::vector<std::byte*> free_;
};

}  // namespace farpage::transport
