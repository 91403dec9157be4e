#include "runtime/engine/block_service.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/base/event_ring.hpp"
#include "runtime/engine/coherence_env.hpp"
#include "runtime/memory/poison_log.hpp"

namespace farpage::engine {

using coherence::AgentState;
using coherence::Message;
using coherence::MessageType;
using memory::Consistency;
using memory::Range;
using memory::RegionDescriptor;
using memory::RegionState;

namespace {
constexpr uint32_t kDeferredPerDomain = 2 * transport::kCreditsPerClass;
constexpr uint32_t kMostAskedAhead = 64;        // prefetches under way
constexpr uint64_t kStreamBytes = 2_MiB;        // most bytes asked ahead of one stream
constexpr uint64_t kMapAroundBytes = 256_KiB;   // most bytes mapped by one fault beyond its block
}  // namespace

BlockService::BlockService(LaneContext& context, Outbox& outbox)
    : context_(context),
      outbox_(outbox),
      blocks_(context),
      cache_(context.segment, context.options.cache_bytes),
      assembler_(blocks_.pool()),
      deferred_(kDeferredPerDomain * context.shape.domains) {}

WireHeader BlockService::protocol_header(MessageType type, const Block& block, bool keeps_copy) const {
  WireHeader header;
  header.kind = WireKind::Protocol;
  header.type = type;
  header.flags = keeps_copy ? kKeepsCopy : 0;
  header.generation = block.region->generation;
  header.slot = block.slot;
  return header;
}

// --- faults ------------------------------------------------------------------------------------------------------------

void BlockService::on_fault(const memory::PageFault& fault) {
  const ThreadSlot slot = threads_.find_or_add(fault.rank, fault.thread);
  Thread& thread = threads_[slot];
  // A thread that waits cannot fault, unless something else has woken it (a signal, a block that came by another way).
  if (thread.waiting == WaitingFor::Frame) waiting_for_room_--;
  threads_.stop_waiting(slot);
  thread.offset = fault.offset;
  thread.write = fault.write;
  thread.upgrade = fault.write_protect;
  thread.fault_ns = context_.clock.now_ns();
  thread.deadline_ns = thread.fault_ns + context_.options.fault_timeout * 1'000'000;
  context_.counters().add(!fault.write          ? Counter::faults_read
                          : fault.write_protect ? Counter::faults_upgrade
                                                : Counter::faults_write);
  event_ring().record(thread.fault_ns, fault.write ? "store fault" : "load fault", fault.offset, fault.thread);
  if (RegionDescriptor* region = context_.regions.find(fault.offset)) return serve(slot, *region);
  if (regions_->ask(fault.offset)) return threads_.start_waiting(slot, WaitingFor::Region, fault.offset);
  poison(slot, {round_down(fault.offset, kPageBytes), kPageBytes}, Status::OutOfRange, "no region there");
}

void BlockService::serve(ThreadSlot slot, RegionDescriptor& region) {
  const WindowOffset at = threads_[slot].offset;
  const Range page{round_down(at, kPageBytes), kPageBytes};
  if (region.state == RegionState::Freeing) return poison(slot, page, Status::Freed, "the region was freed");
  if (!region.contains(at)) return poison(slot, page, Status::OutOfRange, "past the end of the region");
  const Block block = blocks_.of(region, at);
  if (blocks_.map_of(block.slot).flags & memory::kLost)
    return poison(slot, block.range(), Status::TimedOut, "an earlier wait for this block missed its deadline");
  region.consistency == Consistency::Immutable ? serve_immutable(slot, block) : serve_coherent(slot, block);
}

void BlockService::serve_coherent(ThreadSlot slot, const Block& block) {
  Thread& thread = threads_[slot];
  const coherence::AgentEntry& entry = blocks_.agent(block);
  if (block.home_here && entry.state == AgentState::M && blocks_.open_run(block, thread.rank)) {
    context_.counters().add(Counter::faults_open);
    return finish_fault(slot);
  }
  if (!block.home_here && entry.state == AgentState::I && !cache_.holds(block.slot) && !make_room(block.bytes())) {
    waiting_for_room_++;
    return threads_.start_waiting(slot, WaitingFor::Frame, block.slot);
  }
  AgentEnv env(*this);
  coherence::AgentDriver driver(env);
  driver.on_fault(slot, block.slot, thread.write);
  if (!thread.write) follow_stream(slot, block);
}

void BlockService::finish_fault(ThreadSlot slot) {
  Thread& thread = threads_[slot];
  context_.counters().add(Counter::fault_wait_ns, context_.clock.now_ns() - thread.fault_ns);
}

void BlockService::poison(ThreadSlot slot, Range range, Status status, const char* reason) {
  Thread& thread = threads_[slot];
  if (thread.waiting == WaitingFor::Frame) waiting_for_room_--;
  threads_.stop_waiting(slot);
  memory::log_poison(context_.segment, thread.rank, range, status, reason);
  context_.segment.run_state(range.offset >> kRunShift).poisoned = 1;  // the poison outlives the region: not to be used again
  context_.counters().add(Counter::faults_poisoned);
  event_ring().record(context_.clock.now_ns(), "poison", range.offset, static_cast<uint64_t>(status));
  context_.pages.poison(thread.rank, range);
  // While it waited its timer stood still. No wake follows that would start it, and what the thread held is wanted elsewhere.
  if (thread.hold.held_count != 0 && thread.hold_due_ns == 0) threads_.start_timer(slot, context_.clock.now_ns() + 1);
  finish_fault(slot);
}

// Blocks right behind this one that were asked ahead and are here, not yet mapped in `rank`: one call maps them all.
uint64_t BlockService::prefetched_behind(const Block& block, RankSlot rank) const {
  const uint64_t left = block.region->blocks() - block.index - 1;
  const uint64_t most = std::min(left, std::max<uint64_t>(1, kMapAroundBytes >> block.region->block_shift));
  uint64_t more = 0;
  while (more < most) {
    const memory::BlockMap& map = blocks_.map_of(block.slot + more + 1);
    if ((map.flags & memory::kPrefetched) == 0 || (map.flags & memory::kInFile) == 0 || (map.mapped >> rank & 1)) break;
    more++;
  }
  return more;
}

// --- messages ----------------------------------------------------------------------------------------------------------

void BlockService::on_message(AgentId from, const WireHeader& header, std::span<const std::byte> payload) {
  const auto found = blocks_.find(header.slot);
  if (!found || found->region->generation != header.generation || found->region->state == RegionState::Freeing) {
    context_.counters().add(Counter::messages_dropped);  // of a region that has been freed
    return;
  }
  const Block& block = *found;
  const bool to_home = coherence::to_home(header.type);
  if (to_home != block.home_here && from != context_.self()) {
    context_.counters().add(Counter::messages_dropped);
    return;
  }
  if (!to_home && (blocks_.map_of(block.slot).flags & memory::kLost)) return;
  incoming_ = nullptr;
  installed_into_.reset();
  if (!payload.empty()) {
    if (header.block_bytes != block.bytes()) {
      context_.counters().add(Counter::messages_dropped);
      return;
    }
    incoming_ = assembler_.add(from, header, payload);
    if (incoming_ == nullptr) return;
    context_.counters().add(Counter::fetched_bytes, block.bytes());
  }
  const Message message{header.type, from, header.slot, (header.flags & kKeepsCopy) != 0};
  switch (header.type) {
    case MessageType::GetI: serve_immutable_copy(from, block); break;
    case MessageType::DataI: on_immutable_data(block, incoming_); break;
    default:
      if (to_home) {
        HomeEnv env(*this);
        coherence::HomeDriver driver(env);
        driver.on_message(message);
      } else {
        AgentEnv env(*this);
        coherence::AgentDriver driver(env);
        driver.on_message(message);
      }
  }
  assembler_.done();
  incoming_ = nullptr;
  installed_into_.reset();
}

void BlockService::on_timers(uint64_t now_ns) {
  for (ThreadSlot slot = threads_.take_expired(now_ns); slot != kNoThread; slot = threads_.take_expired(now_ns)) {
    AgentEnv env(*this);
    coherence::AgentDriver driver(env);
    driver.on_timer(slot);
  }
}

uint64_t BlockService::next_timer_ns() const {
  // A hold that keeps nobody waiting needs no wake-up: it is looked at when a recall comes.
  return recalls_waiting_ != 0 ? threads_.earliest_timer() : UINT64_MAX;
}

void BlockService::check_deadlines(uint64_t now_ns) {
  threads_.for_each_waiting([&](ThreadSlot slot, Thread& thread) {
    if (now_ns < thread.deadline_ns) return;
    context_.counters().add(Counter::deadlines_missed);
    const auto block = blocks_.find(thread.slot);
    if (thread.waiting == WaitingFor::Block && block) return lose(slot, *block);
    const bool room = thread.waiting == WaitingFor::Frame;
    poison(slot, {round_down(thread.offset, kPageBytes), kPageBytes}, Status::TimedOut,
           room ? "no frame became free before the deadline (DSM_CACHE_BYTES)"
                : "the owner of the address did not answer before the deadline");
  });
}

// The home, or whoever it waits for, has not answered: the block is lost for this domain, and says so.
void BlockService::lose(ThreadSlot slot, const Block& block) {
  memory::BlockMap& map = blocks_.map_of(block.slot);
  if (map.mapped != 0) blocks_.withdraw(block, block.home_here);
  map.flags |= memory::kLost;
  poison(slot, block.range(), Status::TimedOut, "no answer from the block's home, or from whom it waits for, before the deadline");
}

// --- IMMUTABLE ---------------------------------------------------------------------------------------------------------

void BlockService::serve_immutable(ThreadSlot slot, const Block& block) {
  Thread& thread = threads_[slot];
  const bool published = block.region->state == RegionState::Published;
  if (thread.write && (published || !block.home_here))
    return refuse_store(slot, block,
                        published ? "store to a published IMMUTABLE region" : "store to an IMMUTABLE block whose home is elsewhere");
  if (block.home_here) {
    if (!published && blocks_.open_run(block, thread.rank)) {
      context_.counters().add(Counter::faults_open);
      return finish_fault(slot);
    }
    return map_immutable(slot, block);
  }
  coherence::AgentEntry& entry = blocks_.agent(block);
  if (entry.state == AgentState::I && !make_room(block.bytes())) {
    waiting_for_room_++;
    return threads_.start_waiting(slot, WaitingFor::Frame, block.slot);
  }
  const coherence::ImmutableStep step = coherence::step_immutable(entry.state, coherence::ImmutableEvent::Read);
  if (step.action == coherence::ImmutableAction::Map) {
    map_immutable(slot, block);
  } else {
    threads_.start_waiting(slot, WaitingFor::Block, block.slot);
    if (step.action == coherence::ImmutableAction::WaitAndAsk) ask_immutable(block);
  }
  follow_stream(slot, block);
}

// A page that is mapped cannot be poisoned. A copy is given up first; home memory stays where it is for the others, and the
// thread is signalled instead. (A system call that stores there is not interrupted by a signal: it waits for its deadline.)
void BlockService::refuse_store(ThreadSlot slot, const Block& block, const char* reason) {
  Thread& thread = threads_[slot];
  if (!block.home_here) {
    if (blocks_.agent(block).state == AgentState::S) evict(block.slot);
    return poison(slot, block.range(), Status::Unsupported, reason);
  }
  const Range page{round_down(thread.offset, kPageBytes), kPageBytes};
  memory::log_poison(context_.segment, thread.rank, page, Status::Unsupported, reason, thread.tid);
  context_.counters().add(Counter::faults_poisoned);
  ::syscall(SYS_tgkill, context_.segment.header().pids[thread.rank].load(), thread.tid, SIGBUS);
  finish_fault(slot);
}

void BlockService::ask_immutable(const Block& block) {
  coherence::AgentEntry& entry = blocks_.agent(block);
  entry.state = coherence::step_immutable(entry.state, coherence::ImmutableEvent::Read).next;
  cache_.take(block.slot, block.bytes());
  context_.counters().add(Counter::fetches);
  outbox_.send(block.home, protocol_header(MessageType::GetI, block, false));
}

void BlockService::map_immutable(ThreadSlot slot, const Block& block) {
  Thread& thread = threads_[slot];
  threads_.stop_waiting(slot);
  context_.counters().add(Counter::faults_local);
  if (block.home_here && block.region->state != RegionState::Published) {
    blocks_.map(block, thread.rank, thread.write, thread.upgrade);  // still being written, in a run of mixed homes
  } else if (block.home_here) {
    blocks_.map_home_run(block, thread.rank);
  } else if (const uint64_t more = prefetched_behind(block, thread.rank); more != 0) {
    blocks_.map_run(block, more, thread.rank);
  } else {
    blocks_.map(block, thread.rank, false, false);
  }
  finish_fault(slot);
}

void BlockService::serve_immutable_copy(AgentId to, const Block& block) {
  if (block.region->state != RegionState::Published)
    return deferred_.add(block.slot, {MessageType::GetI, to, block.slot, false});
  context_.counters().add(Counter::served_bytes, block.bytes());
  outbox_.send_stable_block(to, protocol_header(MessageType::DataI, block, false), blocks_.bytes(block), block.bytes());
}

void BlockService::on_immutable_data(const Block& block, const std::byte* bytes) {
  coherence::AgentEntry& entry = blocks_.agent(block);
  const coherence::ImmutableStep step = coherence::step_immutable(entry.state, coherence::ImmutableEvent::Data);
  if (step.action == coherence::ImmutableAction::Refuse || bytes == nullptr) {
    context_.counters().add(Counter::messages_dropped);
    return;
  }
  entry.state = step.next;
  const ThreadSlot first = threads_.first_waiter(block.slot, false);
  note_arrival(block, first != kNoThread);
  if (first == kNoThread) return blocks_.install(block, bytes, std::nullopt, false);
  blocks_.install(block, bytes, threads_[first].rank, false);
  threads_.stop_waiting(first);
  finish_fault(first);
  for (ThreadSlot t = threads_.first_waiter(block.slot, false); t != kNoThread; t = threads_.first_waiter(block.slot, false))
    map_immutable(t, block);
}

// A block asked ahead has come; with somebody waiting for it already, it was asked early enough to count as used.
void BlockService::note_arrival(const Block& block, bool awaited) {
  memory::BlockMap& map = blocks_.map_of(block.slot);
  if ((map.flags & memory::kPrefetched) == 0) return;
  asked_ahead_--;
  if (!awaited) return;
  map.flags &= static_cast<uint8_t>(~memory::kPrefetched);
  context_.counters().add(Counter::prefetch_hits);
}

void BlockService::on_published(RegionDescriptor& region) {
  blocks_.seal(region);
  const uint64_t first = region.slot(0);
  for (;;) {
    const auto slot = deferred_.find_slot([&](uint64_t s) { return s - first < region.blocks(); });
    if (!slot) return;
    while (const auto message = deferred_.take(*slot)) serve_immutable_copy(message->from, blocks_.at(*slot));
  }
}

// --- room --------------------------------------------------------------------------------------------------------------

int BlockService::evictable(uint64_t slot) {
  const auto block = blocks_.find(slot);
  if (!block) return 0;
  const coherence::AgentEntry& entry = blocks_.agent(*block);
  if (block->region->consistency == Consistency::Immutable) return entry.state == AgentState::S ? 1 : 0;
  AgentEnv env(*this);
  coherence::AgentDriver driver(env);
  if (!driver.can_evict(slot)) return 0;
  return entry.state == AgentState::M ? 2 : 1;
}

void BlockService::evict(uint64_t slot) {
  const Block block = blocks_.at(slot);
  const bool dirty = blocks_.agent(block).state == AgentState::M;
  context_.counters().add(dirty ? Counter::evicted_dirty : Counter::evicted_clean);
  if (block.region->consistency == Consistency::Immutable) {
    coherence::AgentEntry& entry = blocks_.agent(block);
    entry.state = coherence::step_immutable(entry.state, coherence::ImmutableEvent::Evict).next;
    blocks_.withdraw(block, false);
    cache_.release(slot, block.bytes());
    return;
  }
  AgentEnv env(*this);
  coherence::AgentDriver driver(env);
  driver.evict(slot);
}

bool BlockService::make_room(uint64_t block_bytes) {
  while (!cache_.has_room(block_bytes)) {
    uint64_t victim;
    if (!cache_.find_victim([this](uint64_t slot) { return evictable(slot); }, victim)) return false;
    const uint64_t before = cache_.used_bytes();
    evict(victim);
    if (cache_.used_bytes() == before && !cache_.has_room(block_bytes)) return false;
  }
  return true;
}

void BlockService::pump() {
  if (waiting_for_room_ != 0) {
    threads_.for_each_waiting([&](ThreadSlot slot, Thread& thread) {
      if (thread.waiting != WaitingFor::Frame) return;
      RegionDescriptor* region = context_.regions.find(thread.offset);
      if (region == nullptr || !make_room(region->block_bytes())) return;
      waiting_for_room_--;
      threads_.stop_waiting(slot);
      serve(slot, *region);
    });
  }
  while (jobs_begin_ != jobs_end_ && asked_ahead_ < kMostAskedAhead) {
    PrefetchJob& job = jobs_[jobs_begin_ % jobs_.size()];
    RegionDescriptor* region = job.next < job.end ? context_.regions.find(job.next) : nullptr;
    if (region == nullptr || !region->contains(job.next) || region->state == RegionState::Freeing) {
      jobs_begin_++;
      continue;
    }
    const Block block = blocks_.of(*region, job.next);
    job.next = block.range().offset + block.bytes();
    if (!ask_ahead(block)) jobs_begin_++;  // no room: the rest would only push out what was asked before
  }
}

void BlockService::prefetch(RankSlot, Range range) {
  if (context_.regions.find(range.offset) == nullptr) {
    (void)regions_->ask(range.offset);  // the next prefetch finds it
    return;
  }
  if (jobs_end_ - jobs_begin_ == jobs_.size()) return;
  // At most a quarter of the cache is asked ahead by one call.
  const uint64_t bytes = std::min(range.bytes, std::max(cache_.limit_bytes() / 4, kMaxBlockBytes));
  jobs_[jobs_end_++ % jobs_.size()] = {range.offset, range.offset + bytes};
}

// Asks for a block that nobody waits for yet. True: asked, or no need; false: no room.
bool BlockService::ask_ahead(const Block& block) {
  if (block.home_here) return true;
  memory::BlockMap& map = blocks_.map_of(block.slot);
  if (blocks_.agent(block).state != AgentState::I || cache_.holds(block.slot) || (map.flags & memory::kLost)) return true;
  if (!make_room(block.bytes())) return false;
  map.flags |= memory::kPrefetched;
  asked_ahead_++;
  context_.counters().add(Counter::prefetched);
  if (block.region->consistency == Consistency::Immutable) {
    ask_immutable(block);
    return true;
  }
  AgentEnv env(*this);
  coherence::AgentDriver driver(env);
  driver.prefetch(block.slot);
  return true;
}

// Sequential faults of one thread: ask ahead in windows that double while the guess holds.
void BlockService::follow_stream(ThreadSlot slot, const Block& block) {
  if (context_.options.stream_blocks == 0 || block.home_here) return;
  Stream& stream = threads_[slot].stream;
  const bool expected = stream.next_slot != 0 && block.slot >= stream.next_slot && block.slot <= std::max(stream.asked_to, stream.next_slot);
  const uint64_t limit = std::min<uint64_t>(context_.options.stream_blocks, std::max<uint64_t>(2, kStreamBytes >> block.region->block_shift));
  stream.window = expected ? static_cast<uint32_t>(std::min<uint64_t>(std::max(4u, stream.window * 2), limit)) : 0;
  stream.next_slot = block.slot + 1;
  if (!expected) {
    stream.asked_to = 0;
    return;
  }
  const uint64_t end = block.region->slot(0) + block.region->blocks();
  const uint64_t target = std::min(block.slot + 1 + stream.window, end);
  for (uint64_t next = std::max(stream.asked_to, block.slot + 1); next < target; next++) {
    if (asked_ahead_ >= 2 * kMostAskedAhead || !ask_ahead(blocks_.at(next))) break;
    context_.counters().add(Counter::stream_blocks);
    stream.asked_to = next + 1;
  }
}

// --- regions -----------------------------------------------------------------------------------------------------------

void BlockService::on_resolved(WindowOffset asked, RegionDescriptor* region) {
  const WindowOffset run = round_down(asked, kRunBytes);
  threads_.for_each_waiting([&](ThreadSlot slot, Thread& thread) {
    if (thread.waiting != WaitingFor::Region || round_down(thread.offset, kRunBytes) != run) return;
    threads_.stop_waiting(slot);
    if (region != nullptr) return serve(slot, *region);
    poison(slot, {round_down(thread.offset, kPageBytes), kPageBytes}, Status::OutOfRange, "no region there");
  });
}

bool BlockService::drop_region(RegionDescriptor& region) {
  const uint64_t first = region.slot(0);
  const auto inside = [&](uint64_t slot) { return slot - first < region.blocks(); };
  bool poisoned = false;
  threads_.drop_holds([&](uint64_t slot) { return inside(slot); }, [&](ThreadSlot slot) {
    AgentEnv env(*this);
    coherence::AgentDriver driver(env);
    driver.on_timer(slot);
  });
  deferred_.drop_if(inside);
  cache_.release_if(inside, region.block_bytes());
  threads_.for_each_waiting([&](ThreadSlot slot, Thread& thread) {
    if (!region.contains(thread.offset)) return;
    poisoned = true;
    const Block block = blocks_.of(region, thread.offset);
    if (blocks_.map_of(block.slot).mapped != 0) blocks_.withdraw(block, false);
    poison(slot, block.range(), Status::Freed, "the region was freed");
  });
  for (WindowOffset run = region.offset; run < region.end(); run += kRunBytes)
    poisoned = poisoned || context_.segment.run_state(run >> kRunShift).poisoned != 0;
  blocks_.drop_region(region);
  return poisoned;
}

}  // namespace farpage::engine
