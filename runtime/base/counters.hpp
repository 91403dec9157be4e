// Counters of one domain: an array in shared memory, one cache-line-free atomic each. Any thread of any rank of the domain
// adds (relaxed); readers see each counter whole, not all at one moment.
#pragma once

#include <atomic>
#include <cstdint>

namespace farpage {

enum class Counter : uint32_t {
#define DSM_COUNTER(name, help) name,
#include "runtime/base/counters.def"
#undef DSM_COUNTER
  kCount
};

inline constexpr uint32_t kCounters = static_cast<uint32_t>(Counter::kCount);

struct CounterInfo {
  const char* name;
  const char* help;
};
const CounterInfo& counter_info(Counter counter);

struct Counters {
  std::atomic<uint64_t> values[kCounters];

  void add(Counter counter, uint64_t n = 1) {
    values[static_cast<uint32_t>(counter)].fetch_add(n, std::memory_order_relaxed);
  }
  void sub(Counter counter, uint64_t n) {
    values[static_cast<uint32_t>(counter)].fetch_sub(n, std::memory_order_relaxed);
  }
  uint64_t get(Counter counter) const {
    return values[static_cast<uint32_t>(counter)].load(std::memory_order_relaxed);
  }
};

}  // namespace farpage
