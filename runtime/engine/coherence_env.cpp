#include "runtime/engine/coherence_env.hpp"

#include <algorithm>

namespace farpage::engine {

using coherence::MessageType;

void AgentEnv::map(Thread slot, Block block_slot, bool write) {
  const farpage::engine::Thread thread = s_.threads_[slot];
  const farpage::engine::Block block = s_.blocks_.at(block_slot);
  s_.finish_fault(slot);
  // install() has mapped and woken the rank for which it was called.
  if (s_.installed_into_ && s_.installed_slot_ == block_slot && *s_.installed_into_ == thread.rank &&
      (!write || (s_.blocks_.map_of(block_slot).writers >> thread.rank & 1)))
    return;
  if (!write && !block.home_here) {
    if (const uint64_t more = s_.prefetched_behind(block, thread.rank); more != 0)
      return s_.blocks_.map_run(block, more, thread.rank);
  }
  s_.blocks_.map(block, thread.rank, write, thread.upgrade);
}

void AgentEnv::install(Block slot, bool writable) {
  const farpage::engine::Block block = s_.blocks_.at(slot);
  const ThreadSlot writer = s_.threads_.first_waiter(slot, true), reader = s_.threads_.first_waiter(slot, false);
  const ThreadSlot first = writable && writer != kNoThread ? writer : reader;
  s_.note_arrival(block, writer != kNoThread || reader != kNoThread);
  // The home's own agent: the bytes are home memory, map() brings them back from where they were kept.
  if (block.home_here) return;
  // A writer cannot be woken by a read-only install: it would only fault again.
  const bool into_rank = first != kNoThread && !(!writable && writer != kNoThread && s_.threads_[writer].rank == s_.threads_[first].rank);
  if (!into_rank) return s_.blocks_.install(block, s_.incoming_, std::nullopt, writable);
  const RankSlot rank = s_.threads_[first].rank;
  s_.blocks_.install(block, s_.incoming_, rank, writable && first == writer);
  s_.installed_into_ = rank;
  s_.installed_slot_ = slot;
}

void AgentEnv::withdraw(Block slot, bool keep) {
  const farpage::engine::Block block = s_.blocks_.at(slot);
  // At the home the frame is home memory: its bytes outlive the mapping in any case.
  s_.blocks_.withdraw(block, keep || block.home_here);
}

void AgentEnv::take_frame(Block slot) {
  const farpage::engine::Block block = s_.blocks_.at(slot);
  if (!block.home_here) s_.cache_.take(slot, block.bytes());
}

void AgentEnv::release_frame(Block slot) {
  const farpage::engine::Block block = s_.blocks_.at(slot);
  if (!block.home_here) s_.cache_.release(slot, block.bytes());
}

void AgentEnv::start_timer(Thread thread, uint8_t backoff) {
  const uint64_t base = s_.context_.options.hold * 1000, most = s_.context_.options.hold_max * 1000;
  s_.context_.counters().add(Counter::grants);
  s_.threads_.start_timer(thread, s_.context_.clock.now_ns() + std::max<uint64_t>(1, std::min(base << backoff, most)));
}

void AgentEnv::send(MessageType type, Block slot, bool keeps_copy) {
  const farpage::engine::Block block = s_.blocks_.at(slot);
  Counters& counters = s_.context_.counters();
  const WireHeader header = s_.protocol_header(type, block, keeps_copy);
  switch (type) {
    case MessageType::GetS:
    case MessageType::GetM:
      if (!block.home_here) counters.add(Counter::fetches);
      break;
    case MessageType::Upgrade:
      if (!block.home_here) counters.add(Counter::upgrades);
      break;
    case MessageType::InvAck: counters.add(Counter::invalidations); break;
    case MessageType::BlockBack: counters.add(Counter::recalls); break;
    default: break;
  }
  if (block.home_here || !coherence::carries_block(type)) return s_.outbox_.send(block.home, header);
  counters.add(Counter::served_bytes, block.bytes());
  s_.outbox_.send_block(block.home, header, s_.blocks_.bytes(block), block.bytes());
  // The answer to a recall has taken the bytes along; those of a PutM stay until its PutAck.
  if (type == MessageType::BlockBack && !keeps_copy) s_.blocks_.drop_kept(block);
}

void HomeEnv::send(AgentId to, MessageType type, Block slot) {
  const farpage::engine::Block block = s_.blocks_.at(slot);
  const WireHeader header = s_.protocol_header(type, block, false);
  if (to == home() || !coherence::carries_block(type)) {
    s_.outbox_.send(to, header);
  } else {
    s_.context_.counters().add(Counter::served_bytes, block.bytes());
    s_.outbox_.send_block(to, header, s_.blocks_.bytes(block), block.bytes());
  }
  // Home memory is old from here on: what was kept of it is not needed any more.
  if (to != home() && (type == MessageType::DataM || type == MessageType::UpgAck)) s_.blocks_.drop_kept(block);
}

void HomeEnv::store(Block slot) {
  // From the home's own agent no bytes come: they are in home memory already, or kept.
  if (s_.incoming_ != nullptr) s_.blocks_.store(s_.blocks_.at(slot), s_.incoming_);
}

}  // namespace farpage::engine
