// Sending: encodes headers, cuts block bytes into pieces, keeps what a lane says to itself in a queue of its own (handled by
// the lane before anything else, so that home and agent of one domain never nest). One lane's: one thread.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/counters.hpp"
#include "runtime/engine/wire.hpp"
#include "transport/transport.hpp"

namespace farpage::engine {

class Outbox {
 public:
  Outbox(AgentId self, transport::Transport* transport) : self_(self), transport_(transport) {}

  AgentId self() const { return self_; }

  /// A coherence message without bytes, or to this domain itself (bytes stay put).
  void send(AgentId to, const WireHeader& header);
  /// A coherence message with the bytes of its block, copied from `bytes` before this returns.
  void send_block(AgentId to, WireHeader header, const std::byte* bytes, uint64_t block_bytes);
  /// The same from memory that stays valid and unchanged until the transport is flushed (IMMUTABLE homes): not copied here.
  void send_stable_block(AgentId to, WireHeader header, const std::byte* bytes, uint64_t block_bytes);
  /// A control message with a small payload (at most a piece).
  void send_control(AgentId to, const WireHeader& header, std::span<const std::byte> payload, transport::MessageClass in_class);

  /// The next message of this lane to itself; false when there is none.
  bool take_self(WireHeader& header);

 private:
  void push_self(const WireHeader& header);
  static constexpr uint32_t kSelfQueue = 4096;
  AgentId self_;
  transport::Transport* transport_;
  std::array<WireHeader, kSelfQueue> self_queue_;
  uint32_t self_begin_ = 0, self_end_ = 0;
};

}  // namespace farpage::engine
