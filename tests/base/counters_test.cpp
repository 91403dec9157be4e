// Counters: threads add without losing, names are unique.
#include "runtime/base/counters.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace farpage {
namespace {

TEST_CASE("counters: zero bytes are a valid start, adds from threads are all counted") {
  static Counters counters;  // zero-initialised, as in a fresh segment
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([] {
      for (int n = 0; n < 10'000; n++) counters.add(Counter::fetches);
      counters.add(Counter::fetched_bytes, 4096);
    });
  for (auto& thread : threads) thread.join();
  CHECK(counters.get(Counter::fetches) == 40'000);
  CHECK(counters.get(Counter::fetched_bytes) == 4 * 4096);
  counters.sub(Counter::fetched_bytes, 4096);
  CHECK(counters.get(Counter::fetched_bytes) == 3 * 4096);
  CHECK(counters.get(Counter::faults_read) == 0);
}

TEST_CASE("counters: each has its own name and a meaning") {
  std::set<std::string> names;
  for (uint32_t i = 0; i < kCounters; i++) {
    const CounterInfo& info = counter_info(static_cast<Counter>(i));
    CHECK(names.insert(info.name).second);
    CHECK(std::string(info.help).size() > 10);
  }
  CHECK(std::string(counter_info(Counter::fetches).name) == "fetches");
}

}  // namespace
}  // namespace farpage
