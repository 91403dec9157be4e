#include "runtime/engine/lane.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/base/event_ring.hpp"
#include "runtime/base/log.hpp"

namespace farpage::engine {
namespace {

enum class Source : uint64_t { Doorbell = 0, Transport = 1, Fault = 2, Connection = 3 };
constexpr uint64_t tag_of(Source source, uint64_t slot) { return static_cast<uint64_t>(source) << 32 | slot; }

constexpr uint32_t kMessagesPerTurn = 64;
constexpr uint32_t kFaultsPerRead = 16;
constexpr uint64_t kFirstUnarmedNapNs = 20'000, kLongestUnarmedNapNs = 1'000'000;

}  // namespace

Lane::Lane(const LaneContext& context, int doorbell, std::vector<Member> members)
    : context_(context),
      doorbell_(doorbell),
      members_(std::move(members)),
      outbox_(context.self(), context.transport),
      blocks_(context_, outbox_),
      regions_(context_, outbox_, *this),
      barrier_arrived_(context.shape.domains) {
  blocks_.connect(regions_);
}

Lane::~Lane() { stop(); }

Result<> Lane::start() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return error(Status::Internal, "epoll_create1: {}", std::strerror(errno));
  const auto watch = [this](int fd, uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    return fd < 0 || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  bool ok = watch(doorbell_, tag_of(Source::Doorbell, 0));
  if (context_.transport != nullptr) ok = ok && watch(context_.transport->event_fd(), tag_of(Source::Transport, 0));
  for (const Member& member : members_) {
    ok = ok && watch(context_.pages.fault_fd(member.slot), tag_of(Source::Fault, member.slot));
    ok = ok && watch(member.connection, tag_of(Source::Connection, member.slot));
  }
  if (!ok) return error(Status::Internal, "epoll_ctl: {}", std::strerror(errno));
  sigset_t all, before;
  sigfillset(&all);  // signals belong to the application's threads
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return success();
}

void Lane::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  const uint64_t one = 1;
  (void)!::write(doorbell_, &one, sizeof one);
  thread_.join();
}

void Lane::run() {
  pthread_setname_np(pthread_self(), "farpage-lane");
  prctl(PR_SET_TIMERSLACK, 1000ul);
  const uint64_t spin_ns = context_.options.spin * 1000;
  uint64_t last_activity = context_.clock.now_ns();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const bool active = turn();
    const uint64_t now = context_.clock.now_ns();
    if (active) {
      last_activity = now;
      unarmed_nap_ns_ = kFirstUnarmedNapNs;
    }
    housekeeping(now);
    const bool sleep = !active && now - last_activity >= spin_ns;
    if (wait(now, sleep)) last_activity = context_.clock.now_ns();
    if (!active && !sleep) sched_yield();  // whoever shares this core, our own faulting thread perhaps, goes first
  }
  if (context_.transport != nullptr) {
    if (const auto flushed = context_.transport->flush(context_.options.init_timeout); !flushed.ok())
      log_warn("finalize: {}", flushed.failure().message);
  }
  context_.segment.header().lane_ended.store(1);
}

bool Lane::turn() {
  uint32_t done = 0;
  if (context_.transport != nullptr) {
    done += context_.transport->receive(
        kMessagesPerTurn, [](void* lane, const transport::Received& message) { static_cast<Lane*>(lane)->on_received(message); },
        this);
  }
  done += serve_faults();
  done += serve_calls();
  // The faults that threads have already made were read above: they count before the timers.
  blocks_.on_timers(context_.clock.now_ns());
  drain_self();
  blocks_.pump();
  drain_self();
  return done != 0;
}

uint32_t Lane::serve_faults() {
  uint32_t served = 0;
  memory::PageFault faults[kFaultsPerRead];
  for (uint64_t ready = faults_ready_; ready != 0; ready &= ready - 1) {
    const auto slot = static_cast<RankSlot>(__builtin_ctzll(ready));
    const size_t count = context_.pages.read_faults(slot, faults);
    for (size_t i = 0; i < count; i++) {
      blocks_.on_fault(faults[i]);
      drain_self();
    }
    served += static_cast<uint32_t>(count);
  }
  faults_ready_ = 0;
  return served;
}

uint32_t Lane::serve_calls() {
  const uint64_t asked = context_.segment.header().call_head.load(std::memory_order_acquire);
  if (asked == calls_seen_) return 0;
  calls_seen_ = asked;
  uint32_t served = 0;
  const std::span<CallSlot> calls(reinterpret_cast<CallSlot*>(context_.segment.call_slots().data()), memory::kCallSlots);
  for (CallSlot& call : calls) {
    if (call.state.load(std::memory_order_acquire) != CallSlot::Asked || call.lane_word[3] != 0) continue;
    call.lane_word[3] = 1;  // taken
    on_call(call);
    drain_self();
    served++;
  }
  return served;
}

void Lane::on_call(CallSlot& call) {
  switch (call.op) {
    case CallOp::Prefetch: {
      blocks_.prefetch(call.rank_slot, {call.offset, call.bytes});
      call.state.store(CallSlot::Free, std::memory_order_release);  // posted: nobody waits
      return;
    }
    case CallOp::Barrier: {
      barrier_call_ = &call;
      const uint64_t number = ++barrier_number_;
      if (context_.self() == AgentId{0}) return arrive_at_barrier(context_.self(), number);
      WireHeader header;
      header.kind = WireKind::Barrier;
      header.argument = number;
      return outbox_.send_control(AgentId{0}, header, {}, transport::MessageClass::Request);
    }
    case CallOp::Resolve:
    case CallOp::CreateRegion:
    case CallOp::FreeRegion:
    case CallOp::FreeObject:
    case CallOp::Publish: return regions_.on_call(call);
  }
}

void Lane::arrive_at_barrier(AgentId domain, uint64_t number) {
  barrier_arrived_[domain.value] = std::max(barrier_arrived_[domain.value], number);
  for (const uint64_t arrived : barrier_arrived_)
    if (arrived < number) return;
  WireHeader header;
  header.kind = WireKind::BarrierGo;
  header.argument = number;
  for (uint16_t to = 1; to < context_.shape.domains; to++)
    outbox_.send_control(AgentId{to}, header, {}, transport::MessageClass::Response);
  barrier_done(number);
}

void Lane::barrier_done(uint64_t number) {
  if (number != barrier_number_ || barrier_call_ == nullptr) return;
  show_traffic();  // a program reads its counters after a barrier
  RegionService::answer(*barrier_call_, success());
  barrier_call_ = nullptr;
}

void Lane::on_received(const transport::Received& message) {
  const auto header = decode(message.header, message.payload);
  if (!header) {
    context_.counters().add(Counter::messages_dropped);
    return;
  }
  event_ring().record(context_.clock.now_ns(), "received", static_cast<uint64_t>(header->kind) << 8 | static_cast<uint64_t>(header->type),
                      header->slot);
  switch (header->kind) {
    case WireKind::Protocol: blocks_.on_message(message.from, *header, message.payload); break;
    case WireKind::Barrier:
      if (context_.self() == AgentId{0}) arrive_at_barrier(message.from, header->argument);
      break;
    case WireKind::BarrierGo: barrier_done(header->argument); break;
    default: regions_.on_message(message.from, *header, message.payload); break;
  }
  drain_self();
}

void Lane::drain_self() {
  WireHeader header;
  while (outbox_.take_self(header)) blocks_.on_message(context_.self(), header, {});
}

uint64_t Lane::sleep_limit_ns(uint64_t now_ns) {
  const uint64_t next = std::min(next_housekeeping_ns_, blocks_.next_timer_ns());
  return next > now_ns ? next - now_ns : 0;
}

bool Lane::wait(uint64_t now_ns, bool sleep) {
  timespec timeout{0, 0};
  if (sleep) {
    // Asked after the doorbell was last read: rung again, or seen here.
    if (context_.segment.header().call_head.load(std::memory_order_seq_cst) != calls_seen_) return true;
    uint64_t limit = sleep_limit_ns(now_ns);
    // A transport that will not be armed though it has nothing for us (UCX, for a while after traffic) is looked at now and then.
    if (context_.transport == nullptr || context_.transport->prepare_to_sleep()) {
      unarmed_nap_ns_ = kFirstUnarmedNapNs;
    } else {
      limit = std::min(limit, unarmed_nap_ns_);
      unarmed_nap_ns_ = std::min(2 * unarmed_nap_ns_, kLongestUnarmedNapNs);
    }
    timeout = {static_cast<time_t>(limit / 1'000'000'000), static_cast<long>(limit % 1'000'000'000)};
    context_.counters().add(Counter::lane_sleeps);
  }
  epoll_event events[16];
  const int count = ::epoll_pwait2(epoll_.get(), events, 16, &timeout, nullptr);
  for (int i = 0; i < count; i++) {
    const auto source = static_cast<Source>(events[i].data.u64 >> 32);
    const uint64_t slot = events[i].data.u64 & 0xffff'ffff;
    switch (source) {
      case Source::Doorbell: {
        uint64_t rung;
        (void)!::read(doorbell_, &rung, sizeof rung);
        break;
      }
      case Source::Transport: break;
      case Source::Fault: faults_ready_ |= uint64_t{1} << slot; break;
      case Source::Connection:
        for (const Member& member : members_)
          if (member.slot == slot) member_gone(member);
        break;
    }
  }
  return count > 0;
}

void Lane::housekeeping(uint64_t now_ns) {
  if (now_ns < next_housekeeping_ns_) return;
  const uint64_t heartbeat_ns = context_.options.heartbeat * 1'000'000;
  const uint64_t pace_ns = blocks_.waiting() || regions_.busy() || barrier_call_ != nullptr ? 50'000'000 : heartbeat_ns;
  next_housekeeping_ns_ = now_ns + std::min(pace_ns, heartbeat_ns);
  context_.segment.header().heartbeat.fetch_add(1, std::memory_order_relaxed);
  blocks_.check_deadlines(now_ns);
  regions_.check_deadlines(now_ns);
  if (barrier_call_ != nullptr && barrier_call_->state.load() == CallSlot::Abandoned) {
    RegionService::answer(*barrier_call_, success());
    barrier_call_ = nullptr;
  }
  show_traffic();
}

// The transport counts for itself; what dsm_stats shows is as of the last call or heartbeat.
void Lane::show_traffic() {
  if (context_.transport == nullptr) return;
  const transport::Traffic traffic = context_.transport->traffic();
  const auto set = [this](Counter counter, uint64_t value) {
    context_.counters().values[static_cast<uint32_t>(counter)].store(value, std::memory_order_relaxed);
  };
  set(Counter::wire_sent_bytes, traffic.sent_bytes);
  set(Counter::wire_received_bytes, traffic.received_bytes);
  set(Counter::messages_sent, traffic.sent_messages);
  set(Counter::messages_received, traffic.received_messages);
}

void Lane::member_gone(const Member& member) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, member.connection, nullptr);
  const int fault_fd = context_.pages.fault_fd(member.slot);
  if (fault_fd >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fault_fd, nullptr);
  context_.pages.remove_rank(member.slot);
  blocks_.drop_rank(member.slot);
}

void Lane::on_resolved(WindowOffset asked, memory::RegionDescriptor* region) { blocks_.on_resolved(asked, region); }
bool Lane::on_drop(memory::RegionDescriptor& region) { return blocks_.drop_region(region); }
void Lane::on_published(memory::RegionDescriptor& region) { blocks_.on_published(region); }

}  // namespace farpage::engine
