// Time as a parameter: whoever needs it is given a Clock, so that a simulator or a test can move it by hand.
// SteadyClock may be used from any thread.
#pragma once

#include <cstdint>
#include <ctime>

namespace farpage {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since an arbitrary start; never goes back.
  virtual uint64_t now_ns() const = 0;
};

class SteadyClock final : public Clock {
 public:
  uint64_t now_ns() const override {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
  }
};

class ManualClock final : public Clock {
 public:
  uint64_t now_ns() const override { return now_ns_; }
  void advance_ns(uint64_t ns) { now_ns_ += ns; }

 private:
  uint64_t now_ns_ = 0;
};

}  // namespace farpage
