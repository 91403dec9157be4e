// The messages between lanes as bytes: one fixed header, and for some a payload. The only place that knows the layout; what
// arrives is hostile until decode() has accepted it. Pure functions: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/ids.hpp"
#include "runtime/coherence/message.hpp"
#include "transport/transport.hpp"

namespace farpage::engine {

enum class WireKind : uint8_t {
  Protocol = 1,      // a coherence message about one block, whole or one piece of its bytes
  ResolveAsk = 2,    // what region holds `offset`?
  ResolveReply = 3,  // payload: descriptor; none when status is not Ok
  OfferRegion = 4,   // payload: descriptor; reserve home memory for it
  OfferReply = 5,
  FreeAsk = 6,       // to the owner: end the region
  FreeReply = 7,
  FreeDrop = 8,      // owner to domain set: drop everything of it
  FreeDropped = 9,
  FreeObject = 10,   // to the owner of a slab: the object at `offset`
  PublishAsk = 11,   // to the owner: rank `argument` has published its part
  Published = 12,    // owner to all that hold the descriptor
  Barrier = 13,      // to domain 0: domain arrived at barrier `argument`
  BarrierGo = 14,
};

inline constexpr uint8_t kWireVersion = 1;

struct WireHeader {
  uint8_t version = kWireVersion;
  WireKind kind = WireKind::Protocol;
  coherence::MessageType type{};  // Protocol
  uint8_t flags = 0;
  uint32_t generation = 0;    // of the region
  uint64_t slot = 0;          // Protocol: block; FreeDrop: bytes of the region
  uint64_t offset = 0;        // others: window offset
  uint32_t piece_offset = 0;  // Protocol with bytes: this piece's place in the block
  uint32_t block_bytes = 0;   // Protocol with bytes: of the whole block
  uint64_t argument = 0;      // rank, barrier number, call tag
  int32_t status = 0;         // replies
  uint32_t pad = 0;
};
static_assert(sizeof(WireHeader) <= transport::kMaxHeaderBytes);

enum WireFlag : uint8_t { kKeepsCopy = 1 };

inline std::span<const std::byte> encode(const WireHeader& header) { return std::as_bytes(std::span(&header, 1)); }

/// The header of a received message, or nothing when it is not one of ours: wrong size, version, kind, type, piece bounds.
std::optional<WireHeader> decode(std::span<const std::byte> header, std::span<const std::byte> payload);

/// The class that carries a coherence message.
transport::MessageClass class_of(coherence::MessageType type);

}  // namespace farpage::engine
