#include "transport/faulty.hpp"

#include <array>
#include <cstring>
#include <deque>

#include "transport/buffer_pool.hpp"

namespace farpage::transport {
namespace {

struct Held {
  AgentId from;
  MessageClass message_class;
  uint8_t header_bytes;
  std::array<std::byte, kMaxHeaderBytes> header;
  std::vector<std::byte> payload;
  uint64_t due;  // receive() calls from the start
};

class Faulty final : public Transport {
 public:
  Faulty(std::unique_ptr<Transport> inner, const Mischief& mischief)
      : inner_(std::move(inner)), mischief_(mischief), state_(mischief.seed * 0x9e3779b97f4a7c15ull + 1), pool_(16, {}) {}

  AgentId self() const override { return inner_->self(); }
  uint32_t agents() const override { return inner_->agents(); }
  PoolBuffer take_buffer() override { return inner_->take_buffer(); }
  void send(AgentId to, MessageClass message_class, std::span<const std::byte> header, Payload payload) override {
    inner_->send(to, message_class, header, std::move(payload));
  }

  uint32_t receive(uint32_t limit, ReceiveHandler handler, void* context) override {
    calls_++;
    inner_->receive(limit, [](void* self, const Received& message) { static_cast<Faulty*>(self)->take(message); }, this);
    uint32_t handled = 0;
    while (handled < limit) {
      const size_t next = pick();
      if (next == held_.size()) break;
      const Held message = std::move(held_[next]);
      held_.erase(held_.begin() + static_cast<long>(next));
      const PoolBuffer buffer = pool_.take();
      if (message.payload.size() != 0) std::memcpy(buffer.bytes(), message.payload.data(), message.payload.size());
      handler(context, {message.from, message.message_class, std::span(message.header.data(), message.header_bytes),
                        {message.payload.empty() ? nullptr : buffer.bytes(), message.payload.size()}});
      if (mischief_.sticky_payloads) std::memset(buffer.bytes(), 0xee, message.payload.size());
      handled++;
    }
    return handled;
  }

  int event_fd() const override { return inner_->event_fd(); }
  bool prepare_to_sleep() override { return held_.empty() && inner_->prepare_to_sleep(); }
  Result<> flush(uint64_t timeout_ms) override { return inner_->flush(timeout_ms); }
  bool peer_failed(AgentId peer) const override { return inner_->peer_failed(peer); }
  std::vector<PeerInfo> peers() const override { return inner_->peers(); }
  Traffic traffic() const override { return inner_->traffic(); }
  std::string version_text() const override { return "faulty " + inner_->version_text(); }

 private:
  uint64_t random() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
  }
  bool chance(uint32_t percent) { return percent != 0 && random() % 100 < percent; }

  void take(const Received& message) {
    if (chance(mischief_.lose_percent)) return;
    Held held{message.from, message.message_class, static_cast<uint8_t>(message.header.size()), {}, {message.payload.begin(), message.payload.end()}, calls_};
    std::memcpy(held.header.data(), message.header.data(), message.header.size());
    if (chance(mischief_.delay_percent)) held.due += 1 + random() % 20;
    if (chance(mischief_.duplicate_percent)) held_.push_back(held);
    held_.push_back(std::move(held));
  }

  // The message that goes on next; held_.size(): none is due.
  size_t pick() {
    size_t due = 0;
    for (const Held& held : held_) due += held.due <= calls_;
    if (due == 0) return held_.size();
    size_t skip = mischief_.reorder ? random() % due : 0;
    for (size_t i = 0; i < held_.size(); i++)
      if (held_[i].due <= calls_ && skip-- == 0) return i;
    return held_.size();
  }

  std::unique_ptr<Transport> inner_;
  Mischief mischief_;
  uint64_t state_;
  uint64_t calls_ = 0;
  std::deque<Held> held_;
  BufferPool pool_;
};

}  // namespace

std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, const Mischief& mischief) {
  return std::make_unique<Faulty>(std::move(inner), mischief);
}

}  // namespace farpage::transport
