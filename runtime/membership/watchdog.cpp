#include "runtime/membership/watchdog.hpp"

#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "runtime/base/log.hpp"

namespace farpage::membership {
namespace {
constexpr int kMissedHeartbeats = 5;
}

Result<std::unique_ptr<Watchdog>> Watchdog::start(const Watched& watched) {
  std::unique_ptr<Watchdog> watchdog(new Watchdog(watched));
  watchdog->pidfd_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, watched.leader_pid, 0)));
  watchdog->stop_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!watchdog->pidfd_ || !watchdog->stop_)
    return error(Status::Internal, "watching process {}, the leader: {}", watched.leader_pid, std::strerror(errno));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watchdog->thread_ = std::thread([raw = watchdog.get()] { raw->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return watchdog;
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Watchdog::run() {
  pthread_setname_np(pthread_self(), "farpage-watch");
  const memory::SegmentHeader& header = watched_.segment.header();
  uint64_t last = header.heartbeat.load();
  int missed = 0;
  for (;;) {
    pollfd watched[3] = {{stop_.get(), POLLIN, 0}, {pidfd_.get(), POLLIN, 0}, {watched_.connection, POLLRDHUP, 0}};
    const int ready = ::poll(watched, 3, static_cast<int>(watched_.heartbeat_ms));
    if (ready < 0 && errno == EINTR) continue;
    if (watched[0].revents != 0) return;
    if (header.lane_ended.load() == 1) return;  // it has left in order
    if (watched[1].revents != 0 || (watched[2].revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0) return give_up("its process has ended");
    const uint64_t now = header.heartbeat.load();
    missed = now == last ? missed + 1 : 0;
    last = now;
    if (missed > kMissedHeartbeats) return give_up(fmt::format("no heartbeat for {} ms", missed * watched_.heartbeat_ms));
  }
}

void Watchdog::give_up(const std::string& why) {
  memory::SegmentHeader& header = watched_.segment.header();
  header.lane_ended.store(2);
  watched_.window.forbid();
  // Before the wake: a freed thread ends the process, and with it what has not been said yet.
  log_error("rank {}, the leader of this domain, is lost: {}; global memory ends here", watched_.leader.value, why);
  if (watched_.fault_descriptor >= 0) {
    uffdio_range all{reinterpret_cast<uint64_t>(watched_.window.base()), watched_.window.bytes()};
    ::ioctl(watched_.fault_descriptor, UFFDIO_WAKE, &all);
  }
  ::syscall(SYS_futex, &header.barrier_generation, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

}  // namespace farpage::membership
