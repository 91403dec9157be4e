#include "runtime/engine/wire.hpp"

#include <cstring>

#include "runtime/base/units.hpp"
#include "runtime/memory/region.hpp"

namespace farpage::engine {

using coherence::MessageType;

std::optional<WireHeader> decode(std::span<const std::byte> header, std::span<const std::byte> payload) {
  WireHeader out;
  if (header.size() != sizeof out) return std::nullopt;
  std::memcpy(&out, header.data(), sizeof out);
  if (out.version != kWireVersion) return std::nullopt;
  switch (out.kind) {
    case WireKind::Protocol: {
      if (static_cast<uint8_t>(out.type) > static_cast<uint8_t>(MessageType::DataI)) return std::nullopt;
      if (!coherence::carries_block(out.type))
        return payload.empty() ? std::optional(out) : std::nullopt;
      const uint64_t end = uint64_t{out.piece_offset} + payload.size();
      if (!is_power_of_two(out.block_bytes) || out.block_bytes < kPageBytes || out.block_bytes > kMaxBlockBytes ||
          payload.empty() || end > out.block_bytes || out.piece_offset % kPageBytes != 0)
        return std::nullopt;
      return out;
    }
    case WireKind::ResolveReply:
    case WireKind::OfferRegion:
      if (payload.size() != sizeof(memory::RegionDescriptor) && !(out.kind == WireKind::ResolveReply && payload.empty()))
        return std::nullopt;
      return out;
    case WireKind::ResolveAsk:
    case WireKind::OfferReply:
    case WireKind::FreeAsk:
    case WireKind::FreeReply:
    case WireKind::FreeDrop:
    case WireKind::FreeDropped:
    case WireKind::FreeObject:
    case WireKind::PublishAsk:
    case WireKind::Published:
    case WireKind::Barrier:
    case WireKind::BarrierGo: return payload.empty() ? std::optional(out) : std::nullopt;
  }
  return std::nullopt;
}

transport::MessageClass class_of(MessageType type) {
  switch (type) {
    case MessageType::GetS:
    case MessageType::GetM:
    case MessageType::Upgrade:
    case MessageType::GetI:
    case MessageType::Inv:
    case MessageType::Fetch:
    case MessageType::FetchInv: return transport::MessageClass::Request;
    case MessageType::PutS:
    case MessageType::PutM: return transport::MessageClass::Writeback;
    case MessageType::InvAck:
    case MessageType::BlockBack:
    case MessageType::DataS:
    case MessageType::DataM:
    case MessageType::UpgAck:
    case MessageType::PutAck:
    case MessageType::DataI: return transport::MessageClass::Response;
  }
  return transport::MessageClass::Response;
}

}  // namespace farpage::engine
