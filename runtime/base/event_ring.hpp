// The last events of this process, for the message that comes after something broke. Recording takes no lock and no heap,
// so lanes may record between a fault and its page. Any thread records; dump() is for the fatal hook.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace farpage {

class EventRing {
 public:
  /// `what` must be a string literal.
  void record(uint64_t now_ns, const char* what, uint64_t a = 0, uint64_t b = 0) {
    const uint64_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
    Event& event = events_[ticket % kEvents];
    event.when_ns.store(now_ns, std::memory_order_relaxed);
    event.what.store(what, std::memory_order_relaxed);
    event.a.store(a, std::memory_order_relaxed);
    event.b.store(b, std::memory_order_relaxed);
  }

  /// Writes the events, oldest first, to `fd`; at most `limit` lines.
  void dump(int fd, uint64_t limit = kEvents) const;

  static constexpr uint64_t kEvents = 512;

 private:
  struct Event {
    std::atomic<uint64_t> when_ns{0};
    std::atomic<const char*> what{nullptr};
    std::atomic<uint64_t> a{0}, b{0};
  };
  std::array<Event, kEvents> events_;
  std::atomic<uint64_t> next_{0};
};

/// The ring of this process.
EventRing& event_ring();

}  // namespace farpage
