// What goes over the wire in front of every message: enough to refuse what is not for us. Pure: any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/ids.hpp"
#include "transport/transport.hpp"

namespace farpage::transport {

inline constexpr unsigned kPacketAmId = 7;  // UCX's number of our active message
inline constexpr uint16_t kPacketMagic = 0xfa9e;
inline constexpr uint8_t kPacketVersion = 1;
inline constexpr uint8_t kControlPacket = kClasses;  // hello, or credits alone: takes no credit, reaches no handler

struct PacketHeader {
  uint16_t magic = kPacketMagic;
  uint8_t version = kPacketVersion;
  uint8_t packet_class = 0;  // MessageClass, or kControlPacket
  uint16_t epoch = 0;
  uint16_t sender = 0;
  uint64_t job_id = 0;
  std::array<uint16_t, kClasses> credits{};  // given back, by class
  uint8_t header_bytes = 0;                  // of the message, follow this
  uint8_t hello = 0;                         // control: 1 says hello, 2 answers it
  uint32_t payload_bytes = 0;
  uint32_t pad = 0;
};
static_assert(sizeof(PacketHeader) == 32);
inline constexpr size_t kMaxPacketHeaderBytes = sizeof(PacketHeader) + kMaxHeaderBytes;

struct PacketRules {
  uint64_t job_id = 0;
  uint16_t epoch = 0;
  uint16_t self = 0;
  uint32_t agents = 0;
};

/// The header when the packet is one of this job and epoch, from a known sender, and its sizes agree; nothing otherwise.
std::optional<PacketHeader> check_packet(std::span<const std::byte> header, size_t payload_bytes, const PacketRules& rules);

}  // namespace farpage::transport
