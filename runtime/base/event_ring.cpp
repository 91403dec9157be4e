#include "runtime/base/event_ring.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace farpage {

void EventRing::dump(int fd, uint64_t limit) const {
  const uint64_t end = next_.load();
  const uint64_t count = std::min({end, kEvents, limit});
  for (uint64_t i = end - count; i < end; i++) {
    const Event& event = events_[i % kEvents];
    const char* what = event.what.load();
    if (what == nullptr) continue;
    char line[160];
    const int length = std::snprintf(line, sizeof line, "  %12.3f us  %s 0x%llx 0x%llx\n",
                                     static_cast<double>(event.when_ns.load()) / 1e3, what,
                                     static_cast<unsigned long long>(event.a.load()),
                                     static_cast<unsigned long long>(event.b.load()));
    if (length > 0) (void)!::write(fd, line, static_cast<size_t>(std::min<int>(length, sizeof line - 1)));
  }
}

EventRing& event_ring() {
  static EventRing ring;
  return ring;
}

}  // namespace farpage
