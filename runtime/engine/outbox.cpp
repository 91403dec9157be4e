#include "runtime/engine/outbox.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/base/check.hpp"

namespace farpage::engine {

using transport::kMaxPayloadBytes;
using transport::MessageClass;
using transport::Payload;

void Outbox::push_self(const WireHeader& header) {
  DSM_CHECK(self_end_ - self_begin_ < kSelfQueue, "{} messages of a lane to itself", self_end_ - self_begin_);
  self_queue_[self_end_++ % kSelfQueue] = header;
}

bool Outbox::take_self(WireHeader& header) {
  if (self_begin_ == self_end_) return false;
  header = self_queue_[self_begin_++ % kSelfQueue];
  return true;
}

void Outbox::send(AgentId to, const WireHeader& header) {
  if (to == self_) return push_self(header);
  transport_->send(to, class_of(header.type), encode(header), Payload{});
}

void Outbox::send_block(AgentId to, WireHeader header, const std::byte* bytes, uint64_t block_bytes) {
  header.block_bytes = static_cast<uint32_t>(block_bytes);
  for (uint64_t at = 0; at < block_bytes; at += kMaxPayloadBytes) {
    Payload payload;
    payload.bytes = static_cast<uint32_t>(std::min<uint64_t>(kMaxPayloadBytes, block_bytes - at));
    payload.buffer = transport_->take_buffer();
    std::memcpy(payload.buffer.bytes(), bytes + at, payload.bytes);
    header.piece_offset = static_cast<uint32_t>(at);
    transport_->send(to, class_of(header.type), encode(header), std::move(payload));
  }
}

void Outbox::send_stable_block(AgentId to, WireHeader header, const std::byte* bytes, uint64_t block_bytes) {
  header.block_bytes = static_cast<uint32_t>(block_bytes);
  for (uint64_t at = 0; at < block_bytes; at += kMaxPayloadBytes) {
    Payload payload;
    payload.bytes = static_cast<uint32_t>(std::min<uint64_t>(kMaxPayloadBytes, block_bytes - at));
    payload.borrowed = {bytes + at, payload.bytes};
    header.piece_offset = static_cast<uint32_t>(at);
    transport_->send(to, class_of(header.type), encode(header), std::move(payload));
  }
}

void Outbox::send_control(AgentId to, const WireHeader& header, std::span<const std::byte> payload_bytes,
                          MessageClass in_class) {
  if (to == self_) {
    DSM_CHECK(payload_bytes.empty());
    return push_self(header);
  }
  Payload payload;
  if (!payload_bytes.empty()) {
    payload.bytes = static_cast<uint32_t>(payload_bytes.size());
    payload.buffer = transport_->take_buffer();
    std::memcpy(payload.buffer.bytes(), payload_bytes.data(), payload_bytes.size());
  }
  transport_->send(to, in_class, encode(header), std::move(payload));
}

}  // namespace farpage::engine
