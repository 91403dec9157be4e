// Withdrawing a block that a rank is writing loses nothing, and would without the freeze. A rank adds to a word as fast as it
// can; the lane takes the block away again and again and brings the bytes it copied back with the next fault.
#include <doctest/doctest.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <cstring>

#include "remote_rank.hpp"

namespace farpage::memory {
namespace {

constexpr uint64_t kAdds = 1'000'000;  // between two questions: more than fits into a time slice
constexpr int kRounds = 50;
constexpr Range kBlock{kRunBytes, 4 * kPageBytes};
constexpr WindowOffset kWord = kBlock.offset + kPageBytes;

struct Outcome {
  int under_writer = 0;       // withdrawals at which the rank had not finished
  int moved_during_copy = 0;  // the word changed between the begin and the end of a copy
  uint64_t adds = 0;
  uint64_t value = 0;
};

class Withdrawal {
 public:
  explicit Withdrawal(bool freeze) : freeze_(freeze) {}

  Outcome run() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (freeze_ ? outcome_.under_writer < kRounds : outcome_.moved_during_copy == 0) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      domain_.ask(1, Op::Count, kWord, kAdds);
      outcome_.adds += kAdds;
      while (domain_.fault_or_answer(1)) serve_fault();
      REQUIRE(domain_.answer(1).has_value());
    }
    // Each install was followed by a withdrawal, so the newest bytes are the lane's.
    outcome_.value = copied_word();
    return outcome_;
  }

 private:
  void serve_fault() {
    const auto fault = domain_.fault(1);
    REQUIRE(fault.has_value());
    if (fault->write_protect) return domain_.pages().allow_write(1, kBlock);  // raised before the punch: it faults anew
    const uint64_t before = copied_word();
    domain_.pages().install(1, kBlock, bytes_.data(), Access::Write);
    await_progress(before);
    withdraw();
  }
  uint64_t copied_word() const {
    uint64_t value;
    std::memcpy(&value, bytes_.data() + kPageBytes, sizeof value);
    return value;
  }
  uint64_t word() {
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(domain_.pages().view(kWord)), __ATOMIC_ACQUIRE);
  }
  void await_progress(uint64_t from) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (word() == from && !domain_.answered(1)) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      ::sched_yield();
    }
  }
  void withdraw() {
    if (freeze_) domain_.pages().freeze(uint64_t{1} << 1, kBlock);
    const uint64_t before = word();
    std::memcpy(bytes_.data(), domain_.pages().view(kBlock.offset), kBlock.bytes);
    // The rank gets every chance to do harm: without the freeze the lane lets it go on first.
    if (!freeze_) await_progress(before);
    outcome_.moved_during_copy += word() != before;
    domain_.pages().punch(kBlock);
    outcome_.under_writer += !domain_.answered(1);
  }

  bool freeze_;
  TestDomain domain_{1};
  alignas(kPageBytes) std::array<std::byte, kBlock.bytes> bytes_{};
  Outcome outcome_;
};

TEST_CASE("withdraw: freeze, copy, punch under a writer, fifty times, loses no store") {
  const Outcome outcome = Withdrawal(true).run();
  CHECK(outcome.moved_during_copy == 0);
  CHECK(outcome.value == outcome.adds);
}

TEST_CASE("withdraw: copy and punch without a freeze loses stores (so the test above can fail)") {
  const Outcome outcome = Withdrawal(false).run();
  CHECK(outcome.moved_during_copy > 0);
  CHECK(outcome.value < outcome.adds);
}

}  // namespace
}  // namespace farpage::memory
