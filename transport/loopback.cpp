#include "transport/loopback.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>

#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/handle.hpp"
#include "transport/buffer_pool.hpp"

namespace farpage::transport {
namespace {

struct Parcel {
  uint16_t from = 0;
  uint8_t header_bytes = 0;
  std::array<std::byte, kMaxHeaderBytes> header{};
  std::vector<std::byte> payload;
};

// What arrives at one agent. Credits bound it: a class never holds more than agents x credits.
struct Mailbox {
  std::mutex mutex;
  std::array<std::deque<Parcel>, kClasses> classes;
  std::vector<std::array<uint32_t, kClasses>> unhandled;  // by sender: parcels that have not been handled yet
  Fd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

struct Exchange {
  explicit Exchange(uint32_t agents) : mailboxes(agents) {
    for (Mailbox& mailbox : mailboxes) mailbox.unhandled.resize(agents);
  }
  std::deque<Mailbox> mailboxes;
};

void ring(const Mailbox& mailbox) {
  const uint64_t one = 1;
  (void)!::write(mailbox.event.get(), &one, sizeof one);
}

class Loopback final : public Transport {
 public:
  Loopback(std::shared_ptr<Exchange> exchange, AgentId self)
      : exchange_(std::move(exchange)),
        self_(self),
        waiting_(agents()),
        // Payloads are copied into the parcel at once, or wait here for credit.
        pool_(uint64_t{agents()} * kClasses * kCreditsPerClass * 4, {}) {}

  AgentId self() const override { return self_; }
  uint32_t agents() const override { return static_cast<uint32_t>(exchange_->mailboxes.size()); }
  PoolBuffer take_buffer() override { return pool_.take(); }

  void send(AgentId to, MessageClass message_class, std::span<const std::byte> header, Payload payload) override {
    DSM_CHECK(header.size() <= kMaxHeaderBytes && payload.bytes <= kMaxPayloadBytes && to != self_);
    Parcel parcel;
    parcel.from = self_.value;
    parcel.header_bytes = static_cast<uint8_t>(header.size());
    std::memcpy(parcel.header.data(), header.data(), header.size());
    const std::byte* bytes = payload.buffer ? payload.buffer.bytes() : payload.borrowed.data();
    if (payload.bytes != 0) parcel.payload.assign(bytes, bytes + payload.bytes);
    traffic_.sent_messages++;
    traffic_.sent_bytes += header.size() + payload.bytes;
    const auto c = static_cast<size_t>(message_class);
    if (!waiting_[to.value][c].empty() || !hand_over(to, c, parcel)) {
      traffic_.waits_for_credit++;
      waiting_[to.value][c].push_back(std::move(parcel));
    }
  }

  uint32_t receive(uint32_t limit, ReceiveHandler handler, void* context) override {
    Mailbox& mine = exchange_->mailboxes[self_.value];
    uint32_t handled = 0;
    for (const MessageClass c : {MessageClass::Response, MessageClass::Writeback, MessageClass::Request}) {
      const auto index = static_cast<size_t>(c);
      while (handled < limit) {
        Parcel parcel;
        {
          const std::lock_guard lock(mine.mutex);
          if (mine.classes[index].empty()) break;
          parcel = std::move(mine.classes[index].front());
          mine.classes[index].pop_front();
        }
        traffic_.received_messages++;
        traffic_.received_bytes += parcel.header_bytes + parcel.payload.size();
        PoolBuffer aligned;  // the handler may count on alignment
        if (!parcel.payload.empty()) {
          aligned = pool_.take();
          std::memcpy(aligned.bytes(), parcel.payload.data(), parcel.payload.size());
        }
        handler(context, {AgentId{parcel.from}, c, std::span(parcel.header.data(), parcel.header_bytes), {aligned.bytes(), parcel.payload.size()}});
        {
          const std::lock_guard lock(mine.mutex);
          mine.unhandled[parcel.from][index]--;
        }
        ring(exchange_->mailboxes[parcel.from]);  // it may wait for the credit
        handled++;
      }
    }
    for (uint16_t to = 0; to < agents(); to++)
      for (size_t c = 0; c < kClasses; c++)
        while (!waiting_[to][c].empty() && hand_over(AgentId{to}, c, waiting_[to][c].front())) waiting_[to][c].pop_front();
    return handled;
  }

  int event_fd() const override { return exchange_->mailboxes[self_.value].event.get(); }

  bool prepare_to_sleep() override {
    Mailbox& mine = exchange_->mailboxes[self_.value];
    uint64_t rung;
    (void)!::read(mine.event.get(), &rung, sizeof rung);
    const std::lock_guard lock(mine.mutex);
    for (const auto& parcels : mine.classes)
      if (!parcels.empty()) return false;
    return true;
  }

  Result<> flush(uint64_t timeout_ms) override {
    const SteadyClock clock;
    const uint64_t deadline = clock.now_ns() + timeout_ms * 1'000'000;
    for (uint16_t to = 0; to < agents(); to++)
      for (size_t c = 0; c < kClasses; c++)
        while (!waiting_[to][c].empty()) {
          if (hand_over(AgentId{to}, c, waiting_[to][c].front()))
            waiting_[to][c].pop_front();
          else if (clock.now_ns() > deadline)
            return error(Status::TimedOut, "{} messages wait for credit", waiting_[to][c].size());
          else
            ::sched_yield();
        }
    return success();
  }

  bool peer_failed(AgentId) const override { return false; }
  std::vector<PeerInfo> peers() const override {
    std::vector<PeerInfo> infos;
    for (uint16_t agent = 0; agent < agents(); agent++) infos.push_back({AgentId{agent}, AgentId{agent} == self_ ? "self" : "loopback", false, ""});
    return infos;
  }
  Traffic traffic() const override { return traffic_; }
  std::string version_text() const override { return "loopback"; }

 private:
  bool hand_over(AgentId to, size_t c, Parcel& parcel) {
    Mailbox& theirs = exchange_->mailboxes[to.value];
    {
      const std::lock_guard lock(theirs.mutex);
      uint32_t& unhandled = theirs.unhandled[self_.value][c];
      if (unhandled == kCreditsPerClass) return false;
      unhandled++;
      theirs.classes[c].push_back(std::move(parcel));
    }
    ring(theirs);
    return true;
  }

  std::shared_ptr<Exchange> exchange_;
  AgentId self_;
  std::vector<std::array<std::deque<Parcel>, kClasses>> waiting_;
  BufferPool pool_;
  Traffic traffic_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_loopback(uint32_t agents) {
  auto exchange = std::make_shared<Exchange>(agents);
  std::vector<std::unique_ptr<Transport>> transports;
  for (uint16_t agent = 0; agent < agents; agent++) transports.push_back(std::make_unique<Loopback>(exchange, AgentId{agent}));
  return transports;
}

}  // namespace farpage::transport
