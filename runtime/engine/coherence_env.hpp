// What the coherence drivers need of the world, on real pages and real messages: the Env of agent_driver.hpp and
// home_driver.hpp over one BlockService. `Block` is the slot, `Thread` the thread's entry. Made for one event, on the stack.
#pragma once

#include "runtime/engine/block_service.hpp"

namespace farpage::engine {

class AgentEnv {
 public:
  using Block = uint64_t;
  using Thread = ThreadSlot;

  explicit AgentEnv(BlockService& service) : s_(service) {}

  coherence::AgentEntry& entry(Block slot) { return s_.blocks_.agent(s_.blocks_.at(slot)); }
  coherence::ThreadHold& hold(Thread thread) { return s_.threads_[thread].hold; }

  void wait(Thread thread, Block slot, bool) { s_.threads_.start_waiting(thread, WaitingFor::Block, slot); }
  bool first_waiter(Block slot, bool write, Thread& thread) {
    thread = s_.threads_.first_waiter(slot, write);
    return thread != kNoThread;
  }
  void end_wait(Thread thread) { s_.threads_.stop_waiting(thread); }

  void map(Thread thread, Block slot, bool write);
  void install(Block slot, bool writable);
  void downgrade(Block slot) { s_.blocks_.downgrade(s_.blocks_.at(slot)); }
  void withdraw(Block slot, bool keep);
  void drop_kept(Block slot) { s_.blocks_.drop_kept(s_.blocks_.at(slot)); }
  void take_frame(Block slot);
  void release_frame(Block slot);
  void send(coherence::MessageType type, Block slot, bool keeps_copy);

  void start_timer(Thread thread, uint8_t backoff);
  void stop_timer(Thread thread) { s_.threads_.stop_timer(thread); }
  void note_wasted(Thread) { s_.context_.counters().add(Counter::grants_wasted); }
  void note_deferred(Block) {
    s_.recalls_waiting_++;
    s_.context_.counters().add(Counter::recalls_held);
  }
  void note_undeferred(Block) { s_.recalls_waiting_--; }

 private:
  BlockService& s_;
};

class HomeEnv {
 public:
  using Block = uint64_t;

  explicit HomeEnv(BlockService& service) : s_(service) {}

  coherence::DirectoryEntry& entry(Block slot) { return s_.blocks_.directory(slot); }
  AgentId home() const { return s_.context_.self(); }
  void send(AgentId to, coherence::MessageType type, Block slot);
  void store(Block slot);
  void defer(const coherence::Message& message) { s_.deferred_.add(message.block, message); }
  bool take_deferred(Block slot, coherence::Message& out) {
    const auto message = s_.deferred_.take(slot);
    if (message) out = *message;
    return message.has_value();
  }

 private:
  BlockService& s_;
};

}  // namespace farpage::engine
