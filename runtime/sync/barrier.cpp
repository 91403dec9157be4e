#include "runtime/sync/barrier.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "runtime/base/clock.hpp"

namespace farpage::sync {
namespace {

Error broken(Status status) {
  if (status == Status::PeerLost) return error(status, "the leader of this domain has ended");
  return error(status, "not all ranks came to the barrier before the deadline");
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, uint64_t ns) {
  const timespec timeout{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

}  // namespace

Result<> barrier(engine::Node& node) {
  memory::SegmentHeader& header = node.segment().header();
  const auto failed = [&] { return static_cast<Status>(header.barrier_status.load(std::memory_order_acquire)); };
  if (failed() != Status::Ok) return broken(failed());
  const uint32_t generation = header.barrier_generation.load(std::memory_order_acquire);
  if (header.barrier_arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == node.shape().ranks_here) {
    Result<> met = success();
    if (node.shape().domains > 1) met = node.domain_barrier();
    if (!met.ok()) header.barrier_status.store(static_cast<uint32_t>(met.status()), std::memory_order_release);
    header.barrier_arrived.store(0, std::memory_order_relaxed);
    header.barrier_generation.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &header.barrier_generation, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
    return met;
  }
  const SteadyClock clock;
  const uint64_t deadline = clock.now_ns() + node.options().fault_timeout * 1'000'000;
  for (int i = 0; i < 10 && header.barrier_generation.load(std::memory_order_acquire) == generation; i++) sched_yield();
  while (header.barrier_generation.load(std::memory_order_acquire) == generation) {
    const uint64_t now = clock.now_ns();
    const bool leader_gone = header.lane_ended.load() != 0;
    if (leader_gone || now >= deadline) {
      uint32_t ok = 0;
      const Status status = leader_gone ? Status::PeerLost : Status::TimedOut;
      header.barrier_status.compare_exchange_strong(ok, static_cast<uint32_t>(status));
      return broken(status);
    }
    futex_wait(header.barrier_generation, generation, std::min<uint64_t>(deadline - now, 500'000'000));
  }
  return failed() == Status::Ok ? success() : Result<>(broken(failed()));
}

}  // namespace farpage::sync
