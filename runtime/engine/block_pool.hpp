// Page-aligned buffers of whole blocks (4 KiB to 2 MiB): bytes that are on their way. Freed buffers are kept by size, so that
// after a warm-up nothing is allocated; growth maps memory in chunks and is counted. One lane's: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace farpage::engine {

class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  std::byte* take(uint64_t block_bytes);
  void give(std::byte* bytes, uint64_t block_bytes);
  uint64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  struct FreeList {
    std::byte* first = nullptr;
  };
  struct Chunk {
    void* begin;
    uint64_t bytes;
  };
  std::array<FreeList, 10> free_{};  // 4 KiB << i
  std::vector<Chunk> chunks_;
  uint64_t mapped_bytes_ = 0;
};

}  // namespace farpage::engine
