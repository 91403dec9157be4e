// A rank whose leader is killed or stopped: the thread that waits in a page fault, the copy that waits there, and the thread
// that waits on a futex of the domain are all freed, and the message says whom the rank has lost.
#include "runtime/membership/watchdog.hpp"

#include <doctest/doctest.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "remote_rank.hpp"
#include "runtime/memory/fault_report.hpp"
#include "runtime/memory/region_table.hpp"

namespace farpage::memory {
namespace {

constexpr uint64_t kHeartbeatMs = 20;
constexpr long kFutexPatienceS = 60;  // longer than a test waits: only a wake ends it

/// What the rank tells when it has been freed.
struct Freed {
  Status copy;            // of a guarded copy from an absent page
  uint64_t futex_ns;      // how long the wait on the barrier's word took
  uint32_t lane_ended;
  uint64_t copied_after;  // status of a copy made afterwards
};

class Trio {
 public:
  Trio() {
    const SegmentParameters parameters{kTestWindowBytes, 0, 2, 5};
    auto file = create_window_file(kTestWindowBytes);
    auto segment = StateSegment::create(parameters);
    REQUIRE(file.ok());
    REQUIRE(segment.ok());
    file_ = std::move(*file);
    segment_.emplace(std::move(*segment));
    int ends[2], link[2], errors[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) == 0);
    leader_ = ::fork();
    REQUIRE(leader_ >= 0);
    if (leader_ == 0) {
      ::close(link[1]);
      lead(link[0]);
    }
    // Made now: a leader that is stopped before it could close them would keep them open.
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    REQUIRE(::pipe(errors) == 0);
    rank_ = ::fork();
    REQUIRE(rank_ >= 0);
    if (rank_ == 0) {
      for (const int fd : {ends[0], link[0], errors[0]}) ::close(fd);
      ::dup2(errors[1], STDERR_FILENO);
      follow(ends[1], link[1]);
    }
    for (const int fd : {ends[1], link[0], link[1], errors[1]}) ::close(fd);
    control_ = Fd(ends[0]);
    errors_ = Fd(errors[0]);
  }
  ~Trio() {
    for (const pid_t pid : {leader_, rank_}) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  pid_t leader() const { return leader_; }
  StateSegment& segment() { return *segment_; }
  /// Returns when a thread of the rank waits in a page fault and another one on a futex of the domain.
  void await_fault() {
    char byte;
    REQUIRE(readable(control_.get()));
    REQUIRE(::recv(control_.get(), &byte, 1, 0) == 1);
  }
  Freed await_freed() {
    Freed freed{};
    REQUIRE(readable(control_.get()));
    REQUIRE(::recv(control_.get(), &freed, sizeof freed, 0) == sizeof freed);
    return freed;
  }
  /// All that the rank has written, once it has ended.
  std::string messages() {
    std::string text;
    char part[512];
    for (;;) {
      REQUIRE(readable(errors_.get()));
      const ssize_t got = ::read(errors_.get(), part, sizeof part);
      if (got <= 0) return text;
      text.append(part, static_cast<size_t>(got));
    }
  }

 private:
  static bool readable(int fd) {
    pollfd watched{fd, POLLIN, 0};
    return ::poll(&watched, 1, kPatienceMs) == 1;
  }

  // A wake before the sleep would be lost, and show nothing.
  static bool await_sleep(const std::atomic<pid_t>& thread) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (std::chrono::steady_clock::now() < end) {
      std::ifstream file(fmt::format("/proc/self/task/{}/stat", thread.load()));
      std::string text;
      if (thread != 0 && std::getline(file, text) && text.find(") S ") != std::string::npos) return true;
      ::sched_yield();
    }
    return false;
  }

  [[noreturn]] void lead(int link) {
    bind_to_parent();
    pollfd nobody{link, 0, 0};
    for (;;) {
      segment_->header().heartbeat.fetch_add(1);
      ::poll(&nobody, 1, kHeartbeatMs);
    }
  }

  [[noreturn]] void follow(int control, int link) {
    bind_to_parent();
    auto window = Window::map(test_window(), file_.get());
    const auto descriptor = open_fault_descriptor(window->base(), kTestWindowBytes);
    if (!descriptor.ok()) ::_exit(90);
    const RegionTable regions(*segment_);
    install_fault_report(*window, *segment_, regions, RankId{1}, 1);
    const auto watchdog =
        membership::Watchdog::start({*window, *segment_, descriptor.value().get(), link, leader_, RankId{4}, kHeartbeatMs});
    if (!watchdog.ok()) ::_exit(91);
    Freed freed{};
    std::atomic<pid_t> waiting{0};
    std::thread waiter([&] {
      waiting = ::gettid();
      const auto begin = std::chrono::steady_clock::now();
      const timespec patience{kFutexPatienceS, 0};
      ::syscall(SYS_futex, &segment_->header().barrier_generation, FUTEX_WAIT, 0, &patience, nullptr, 0);
      freed.futex_ns = static_cast<uint64_t>((std::chrono::steady_clock::now() - begin).count());
    });
    std::thread toucher([&] {
      uint64_t word;
      freed.copy = guarded_copy(&word, window->at(0), sizeof word);
    });
    // A thread waits in its fault, another one on the futex.
    if (!readable(descriptor.value().get()) || !await_sleep(waiting)) ::_exit(92);
    (void)!::send(control, "", 1, MSG_NOSIGNAL);
    toucher.join();
    waiter.join();
    uint64_t word;
    freed.lane_ended = segment_->header().lane_ended.load();
    freed.copied_after = static_cast<uint64_t>(guarded_copy(&word, window->at(kRunBytes), sizeof word));
    (void)!::send(control, &freed, sizeof freed, MSG_NOSIGNAL);
    ::_exit(0);
  }

  Fd file_, control_, errors_;
  std::optional<StateSegment> segment_;
  pid_t leader_ = 0, rank_ = 0;
};

void check_freed(const Freed& freed) {
  CHECK(freed.copy == Status::PeerLost);
  CHECK(freed.copied_after == static_cast<uint64_t>(Status::PeerLost));
  CHECK(freed.lane_ended == 2);
  CHECK(freed.futex_ns < uint64_t{kFutexPatienceS} * 1'000'000'000 / 2);
}

TEST_CASE("watchdog: when the leader is killed all waiters are freed") {
  Trio trio;
  trio.await_fault();
  REQUIRE(::kill(trio.leader(), SIGKILL) == 0);
  check_freed(trio.await_freed());
  CHECK(trio.messages().find("rank 4, the leader of this domain, is lost: its process has ended") != std::string::npos);
}

TEST_CASE("watchdog: when the leader stands still all waiters are freed") {
  Trio trio;
  trio.await_fault();
  REQUIRE(::kill(trio.leader(), SIGSTOP) == 0);
  check_freed(trio.await_freed());
  CHECK(trio.messages().find(fmt::format("rank 4, the leader of this domain, is lost: no heartbeat for {} ms", 6 * kHeartbeatMs)) != std::string::npos);
}

TEST_CASE("watchdog: ends at once when it is stopped, and forbids nothing") {
  TestDomain domain(0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bind_to_parent();
    auto window = Window::map(domain.window(), domain.file());
    int link[2];
    if (!window.ok() || ::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, link) != 0) ::_exit(1);
    {
      // A heartbeat far longer than the test: only the stop can end the thread.
      const auto watchdog = membership::Watchdog::start({*window, domain.segment(), -1, link[0], ::getppid(), RankId{0}, 3'600'000});
      if (!watchdog.ok()) ::_exit(2);
    }
    *reinterpret_cast<volatile int*>(window->at(0)) = 1;
    ::_exit(domain.segment().header().lane_ended.load() == 0 ? 0 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
}  // namespace farpage::memory
