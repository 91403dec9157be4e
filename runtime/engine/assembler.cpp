#include "runtime/engine/assembler.hpp"

#include <cstring>

namespace farpage::engine {

const std::byte* Assembler::add(AgentId from, const WireHeader& header, std::span<const std::byte> piece) {
  if (piece.size() == header.block_bytes) return piece.data();
  const uint64_t key = key_of(from, header);
  Parts* parts = parts_.find(key);
  if (parts == nullptr) parts = &parts_.insert(key, {pool_.take(header.block_bytes), header.block_bytes, 0});
  if (parts->block_bytes != header.block_bytes) return nullptr;  // not what the first piece announced: left incomplete
  std::memcpy(parts->bytes + header.piece_offset, piece.data(), piece.size());
  parts->received += piece.size();
  if (parts->received < parts->block_bytes) return nullptr;
  finished_ = key;
  return parts->bytes;
}

void Assembler::done() {
  if (finished_ == UINT64_MAX) return;
  const Parts* parts = parts_.find(finished_);
  pool_.give(parts->bytes, parts->block_bytes);
  parts_.erase(finished_);
  finished_ = UINT64_MAX;
}

}  // namespace farpage::engine
