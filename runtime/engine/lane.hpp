// The lane: the service thread of a domain. It alone changes page tables, runs the protocol, and owns the transport. Turns:
// messages, faults, calls, timers; then it polls for a short while (yielding the core each time), then sleeps in epoll.
//
// start() and stop() are called by the thread that opens and closes the node; everything else happens inside.
// Between a fault and its page: no heap, no log, no blocking call.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/handle.hpp"
#include "runtime/engine/block_service.hpp"
#include "runtime/engine/call.hpp"
#include "runtime/engine/lane_context.hpp"
#include "runtime/engine/outbox.hpp"
#include "runtime/engine/region_service.hpp"

namespace farpage::engine {

class Lane final : private RegionHost {
 public:
  struct Member {
    RankSlot slot;
    int connection;  // its end tells that the rank has gone; owned by the caller; -1 for the leader itself
  };
  Lane(const LaneContext& context, int doorbell, std::vector<Member> members);
  ~Lane() override;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Result<> start();
  /// Ends the thread after everything under way has been sent.
  void stop();

 private:
  void run();
  bool turn();
  uint32_t serve_faults();
  uint32_t serve_calls();
  bool wait(uint64_t now_ns, bool sleep);
  void housekeeping(uint64_t now_ns);
  void show_traffic();
  uint64_t sleep_limit_ns(uint64_t now_ns);
  void on_call(CallSlot& call);
  void on_received(const transport::Received& message);
  void drain_self();
  void arrive_at_barrier(AgentId domain, uint64_t number);
  void barrier_done(uint64_t number);
  void member_gone(const Member& member);

  void on_resolved(WindowOffset asked, memory::RegionDescriptor* region) override;
  bool on_drop(memory::RegionDescriptor& region) override;
  void on_published(memory::RegionDescriptor& region) override;

  LaneContext context_;
  int doorbell_;
  std::vector<Member> members_;
  Outbox outbox_;
  BlockService blocks_;
  RegionService regions_;
  Fd epoll_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  uint64_t calls_seen_ = 0;
  uint64_t next_housekeeping_ns_ = 0;
  uint64_t unarmed_nap_ns_ = 0;  // while the transport refuses to be armed
  uint64_t faults_ready_ = 0;  // ranks whose descriptor epoll has named
  // Barrier: this domain's call, and at domain 0 who has arrived at which one.
  CallSlot* barrier_call_ = nullptr;
  uint64_t barrier_number_ = 0;
  std::vector<uint64_t> barrier_arrived_;
};

}  // namespace farpage::engine
