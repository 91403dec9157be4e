#include "transport/packet.hpp"

#include <cstring>

namespace farpage::transport {

std::optional<PacketHeader> check_packet(std::span<const std::byte> header, size_t payload_bytes, const PacketRules& rules) {
  PacketHeader packet;
  if (header.size() < sizeof packet || header.size() > kMaxPacketHeaderBytes) return std::nullopt;
  std::memcpy(&packet, header.data(), sizeof packet);
  if (packet.magic != kPacketMagic || packet.version != kPacketVersion) return std::nullopt;
  if (packet.job_id != rules.job_id || packet.epoch != rules.epoch) return std::nullopt;
  if (packet.sender >= rules.agents || packet.sender == rules.self) return std::nullopt;
  if (packet.packet_class > kControlPacket) return std::nullopt;
  if (packet.header_bytes != header.size() - sizeof packet || packet.payload_bytes != payload_bytes) return std::nullopt;
  if (payload_bytes > kMaxPayloadBytes || (packet.packet_class == kControlPacket && payload_bytes != 0)) return std::nullopt;
  for (const uint16_t credits : packet.credits)
    if (credits > kCreditsPerClass) return std::nullopt;
  return packet;
}

}  // namespace farpage::transport
