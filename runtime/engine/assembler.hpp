// Puts blocks that travel in several pieces together again. Pieces come in any order; a block is handed on when all of its
// bytes are here. Bounded by what is under way. One lane's: one thread.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/engine/block_pool.hpp"
#include "runtime/engine/slot_map.hpp"
#include "runtime/engine/wire.hpp"

namespace farpage::engine {

class Assembler {
 public:
  explicit Assembler(BlockPool& pool) : pool_(pool), parts_(4096) {}

  /// Takes a piece. The whole block's bytes when this piece was the last (valid until done()), else nullptr. A block of one
  /// piece is handed on where it lies.
  const std::byte* add(AgentId from, const WireHeader& header, std::span<const std::byte> piece);
  /// The bytes handed on by the last add() are no longer needed.
  void done();

 private:
  struct Parts {
    std::byte* bytes = nullptr;
    uint64_t block_bytes = 0;
    uint64_t received = 0;
  };
  static uint64_t key_of(AgentId from, const WireHeader& header) {
    return header.slot ^ uint64_t{from.value} << 40 ^ uint64_t{static_cast<uint8_t>(header.type)} << 56;
  }
  BlockPool& pool_;
  SlotMap<Parts> parts_;
  uint64_t finished_ = UINT64_MAX;
};

}  // namespace farpage::engine
