// The watchdog of a rank that does not lead: notices that its leader has ended or stands still, and frees every thread that
// waits in a page fault, which nobody would answer any more: the window is forbidden, then all waiters are woken; loads and
// stores end in SIGSEGV with a message, calls in PEER_LOST. One thread, asleep but for one look a heartbeat.
//
// The rank keeps its own userfaultfd open for life: with the last descriptor gone waiters would read zeros.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "runtime/base/handle.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/memory/state_segment.hpp"
#include "runtime/memory/window.hpp"

namespace farpage::membership {

class Watchdog {
 public:
  struct Watched {
    const memory::Window& window;
    const memory::StateSegment& segment;
    int fault_descriptor;   // of this rank; -1: none
    int connection;         // to the leader
    int32_t leader_pid;
    RankId leader;
    uint64_t heartbeat_ms;  // five missed: lost
  };
  static Result<std::unique_ptr<Watchdog>> start(const Watched& watched);
  ~Watchdog();  // stops it: before the leader leaves in order

 private:
  explicit Watchdog(const Watched& watched) : watched_(watched) {}
  void run();
  void give_up(const std::string& why);
  Watched watched_;
  Fd pidfd_, stop_;
  std::thread thread_;
};

}  // namespace farpage::membership
