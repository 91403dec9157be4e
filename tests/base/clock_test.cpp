// Clocks: the steady one never goes back, the manual one moves only by hand.
#include "runtime/base/clock.hpp"

#include <doctest/doctest.h>

namespace farpage {
namespace {

TEST_CASE("clock: the steady clock never goes back") {
  const SteadyClock clock;
  uint64_t before = clock.now_ns();
  CHECK(before > 0);
  for (int i = 0; i < 1000; i++) {
    const uint64_t now = clock.now_ns();
    REQUIRE(now >= before);
    before = now;
  }
}

TEST_CASE("clock: the manual clock moves only by hand") {
  ManualClock clock;
  CHECK(clock.now_ns() == 0);
  clock.advance_ns(70);
  clock.advance_ns(5);
  CHECK(clock.now_ns() == 75);
}

}  // namespace
}  // namespace farpage
