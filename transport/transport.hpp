// The transport interface: moves messages between the lanes of domains and never knows what a block is.
//
// Who may call: one thread, the lane that owns it, except wake() (any thread). Implementations: ucx_transport (shm, tcp and
// what UCX brings), loopback (queues in one process), faulty (a decorator that delays, reorders, duplicates, loses).
//
// Invariants
// - A message is a header (at most kMaxHeaderBytes) and a payload (at most kMaxPayloadBytes). Messages arrive whole, exactly
//   once unless a decorator is asked otherwise, in ANY order: nothing may depend on order.
// - Three classes with their own credits and rings: a full ring of requests never holds up a response. send() never blocks
//   and never fails for want of room: without credit the message waits in a pre-sized pool (Pool exhausted is a check: the
//   engine bounds what it has under way).
// - Nothing is delivered inside send(). receive() hands out messages from the rings; the handler may send.
// - A failed peer is only marked; the mark is checked before posting. peer_failed() tells, with a text why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace farpage::transport {

enum class MessageClass : uint8_t {
  Request = 0,    // GetS, GetM, recalls, region queries, calls: what may wait at the receiver
  Writeback = 1,  // PutS, PutM
  Response = 2,   // what ends a transaction: always accepted at once
};
inline constexpr uint32_t kClasses = 3;
inline constexpr uint32_t kMaxHeaderBytes = 64;
inline constexpr uint32_t kMaxPayloadBytes = 64 * 1024;  // larger blocks travel in pieces of this size
inline constexpr uint32_t kCreditsPerClass = 128;        // messages under way per peer and class

/// A buffer of kMaxPayloadBytes from a registered pool; page-aligned. Returns itself to the pool.
class PoolBuffer {
 public:
  PoolBuffer() = default;
  PoolBuffer(std::byte* bytes, void (*give_back)(void* pool, std::byte* bytes), void* pool)
      : bytes_(bytes), give_back_(give_back), pool_(pool) {}
  PoolBuffer(PoolBuffer&& other) noexcept { swap(other); }
  PoolBuffer& operator=(PoolBuffer&& other) noexcept {
    PoolBuffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~PoolBuffer() {
    if (bytes_ != nullptr) give_back_(pool_, bytes_);
  }
  std::byte* bytes() const { return bytes_; }
  explicit operator bool() const { return bytes_ != nullptr; }

 private:
  void swap(PoolBuffer& other) {
    std::swap(bytes_, other.bytes_);
    std::swap(give_back_, other.give_back_);
    std::swap(pool_, other.pool_);
  }
  std::byte* bytes_ = nullptr;
  void (*give_back_)(void*, std::byte*) = nullptr;
  void* pool_ = nullptr;
};

/// What a message carries behind its header. Moved into send(); freed when UCX has taken it.
struct Payload {
  PoolBuffer buffer;                    // owned bytes, or
  std::span<const std::byte> borrowed;  // bytes that stay valid and unchanged until every send is flushed (IMMUTABLE homes)
  uint32_t bytes = 0;                   // used bytes of `buffer`; with `borrowed` its size
};

/// A received message; valid only inside the handler (payload is page-aligned, or 64-byte aligned at least).
struct Received {
  AgentId from;
  MessageClass message_class;
  std::span<const std::byte> header;
  std::span<const std::byte> payload;
};

using ReceiveHandler = void (*)(void* context, const Received& message);

/// What dsm-info prints for each pair.
struct PeerInfo {
  AgentId peer;
  std::string path;  // "shm (posix)", "tcp (lo)", "self"
  bool failed = false;
  std::string failure;
};

struct Traffic {
  uint64_t sent_messages = 0, sent_bytes = 0, received_messages = 0, received_bytes = 0;  // headers included
  uint64_t dropped_messages = 0;  // other job, old epoch, malformed
  uint64_t waits_for_credit = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual AgentId self() const = 0;
  virtual uint32_t agents() const = 0;

  /// A free buffer for a payload. Never empty: pools are sized for all credits of all peers.
  virtual PoolBuffer take_buffer() = 0;

  /// Sends header and payload to `to` (not self). Copies the header. If the peer has failed the message is dropped and
  /// counted: whoever waits for the answer has a deadline.
  virtual void send(AgentId to, MessageClass message_class, std::span<const std::byte> header, Payload payload) = 0;

  /// Progress; then hands at most `limit` received messages to the handler, responses first. Returns how many.
  virtual uint32_t receive(uint32_t limit, ReceiveHandler handler, void* context) = 0;

  /// A descriptor that becomes readable when there may be something to receive, after prepare_to_sleep() has returned true.
  virtual int event_fd() const = 0;
  /// Arms the event. False: something has arrived meanwhile, call receive() again instead of sleeping.
  virtual bool prepare_to_sleep() = 0;

  /// Completes all sends under way, bounded by `timeout_ms`; used at finalize.
  virtual Result<> flush(uint64_t timeout_ms) = 0;

  virtual bool peer_failed(AgentId peer) const = 0;
  virtual std::vector<PeerInfo> peers() const = 0;
  virtual Traffic traffic() const = 0;
  virtual std::string version_text() const = 0;  // library and version loaded, and the one built against
};

}  // namespace farpage::transport
