#include "runtime/base/counters.hpp"

namespace farpage {

const CounterInfo& counter_info(Counter counter) {
  static constexpr CounterInfo kInfo[] = {
#define DSM_COUNTER(name, help) {#name, help},
#include "runtime/base/counters.def"
#undef DSM_COUNTER
  };
  return kInfo[static_cast<uint32_t>(counter)];
}

}  // namespace farpage
