// Everything a domain does about one event of its blocks: runs the agent table and the holds, and has the Env perform the
// actions. Pure orchestration: runtime, explorer and simulator instantiate this same template, so what is searched is what
// runs. Order inside an event: table first, page tables second, message last.
//
// Env (one domain; `block` and `thread` are its own handles, block being comparable by address order):
//   AgentEntry& entry(block)            the block's entry; at the home a fresh one starts as M
//   ThreadHold& hold(thread)
//   void wait(thread, block, write)     the thread joins the block's waiters
//   bool first_waiter(block, write, thread&)   oldest waiter of that kind
//   void end_wait(thread)               it leaves them
//   void map(thread, block, write)      the thread's rank maps the block (read-only unless write) and the thread wakes
//   void install(block, writable)       the bytes of the message being handled become the frame
//   void downgrade(block)               no rank may write any more; the bytes stand still
//   void withdraw(block, keep)          no rank maps it any more; keep: the bytes stay available to send()
//   void drop_kept(block)               bytes kept by withdraw are not needed any more
//   void take_frame(block), release_frame(block)
//   void send(type, block, keeps_copy)  to the block's home; PutM and BlockBack carry the block's bytes (kept, or frame)
//   void start_timer(thread, backoff), stop_timer(thread)      the hold of this thread lasts base << backoff from now
//   void note_wasted(thread), note_deferred(block), note_undeferred(block)
#pragma once

#include "runtime/base/check.hpp"
#include "runtime/coherence/agent.hpp"
#include "runtime/coherence/hold.hpp"
#include "runtime/coherence/message.hpp"
#include "runtime/coherence/mistakes.hpp"

namespace farpage::coherence {

template <class Env>
class AgentDriver {
 public:
  using Block = typename Env::Block;
  using Thread = typename Env::Thread;

  explicit AgentDriver(Env& env) : env_(env) {}

  /// A thread's fault has been taken. It ends mapped and woken, or waits.
  void on_fault(Thread thread, Block block, bool write) {
    env_.stop_timer(thread);
    const FaultNote note = coherence::on_fault(env_.hold(thread), block, write);
    if (note.wasted) env_.note_wasted(thread);
    release(note.released);
    AgentActions actions;
    coherence::step(env_.entry(block), write ? AgentEvent::Write : AgentEvent::Read, actions);
    for (const AgentAction action : actions) {
      switch (action) {
        case AgentAction::Wait: env_.wait(thread, block, write); break;
        case AgentAction::MapRead: wake(thread, block, false); break;
        case AgentAction::MapWrite: wake(thread, block, true); break;
        default: perform(action, block);
      }
    }
  }

  /// A grant, a recall or an acknowledgement from the block's home.
  void on_message(const Message& message) {
    const Block block = static_cast<Block>(message.block);
    switch (message.type) {
      case MessageType::DataS: return act(block, AgentEvent::DataS);
      case MessageType::DataM: return act(block, AgentEvent::DataM);
      case MessageType::UpgAck: return act(block, AgentEvent::UpgAck);
      case MessageType::PutAck: return act(block, AgentEvent::PutAck);
      case MessageType::Inv: return recall(block, Recall::Inv);
      case MessageType::Fetch: return recall(block, Recall::Fetch);
      case MessageType::FetchInv: return recall(block, Recall::FetchInv);
      default: DSM_CHECK(false, "{} sent to an agent", name(message.type));
    }
  }

  /// The thread's hold has run out, and its faults have been read.
  void on_timer(Thread thread) {
    const Released released = coherence::on_timer(env_.hold(thread));
    if (planted(Mistake::DeferredRecallForgotten)) {
      for (uint32_t i = 0; i < released.count; i++) env_.entry(static_cast<Block>(released.blocks[i])).holders--;
      return;
    }
    release(released);
  }

  bool can_evict(Block block) {
    const AgentEntry& entry = env_.entry(block);
    return (entry.state == AgentState::S || entry.state == AgentState::M) &&
           (entry.holders == 0 || planted(Mistake::HeldBlockEvicted)) && entry.deferred == Recall::None;
  }
  void evict(Block block) { act(block, AgentEvent::Evict); }

  /// Asks for a read copy that nobody waits for. Only in state I.
  void prefetch(Block block) {
    AgentActions actions;
    coherence::step(env_.entry(block), AgentEvent::Read, actions);
    for (const AgentAction action : actions)
      if (action != AgentAction::Wait) perform(action, block);
  }

 private:
  void act(Block block, AgentEvent event) {
    AgentActions actions;
    coherence::step(env_.entry(block), event, actions);
    for (const AgentAction action : actions) perform(action, block);
  }

  void perform(AgentAction action, Block block) {
    switch (action) {
      case AgentAction::TakeFrame: return env_.take_frame(block);
      case AgentAction::SendGetS: return env_.send(MessageType::GetS, block, false);
      case AgentAction::SendGetM: return env_.send(MessageType::GetM, block, false);
      case AgentAction::SendUpgrade: return env_.send(MessageType::Upgrade, block, false);
      case AgentAction::InstallRead: return env_.install(block, false);
      case AgentAction::InstallWrite: return env_.install(block, true);
      case AgentAction::Granted:
        serve_waiters(block);
        return serve_recall(block);
      case AgentAction::Downgrade:
        if (!planted(Mistake::DowngradeKeepsWriters)) env_.downgrade(block);
        return;
      case AgentAction::Withdraw: return env_.withdraw(block, false);
      case AgentAction::WithdrawDirty: return env_.withdraw(block, true);
      case AgentAction::DropKept: return env_.drop_kept(block);
      case AgentAction::ReleaseFrame: return env_.release_frame(block);
      case AgentAction::SendInvAck: return env_.send(MessageType::InvAck, block, false);
      case AgentAction::SendBlockBack: return env_.send(MessageType::BlockBack, block, false);
      case AgentAction::SendBlockBackKept: return env_.send(MessageType::BlockBack, block, true);
      case AgentAction::SendPutS: return env_.send(MessageType::PutS, block, false);
      case AgentAction::SendPutM: return env_.send(MessageType::PutM, block, false);
      case AgentAction::Pump:
        if (!planted(Mistake::WaitersForgotten)) serve_waiters(block);
        return;
      case AgentAction::Wait:
      case AgentAction::MapRead:
      case AgentAction::MapWrite:
      case AgentAction::Defer:
      case AgentAction::None:
      case AgentAction::Impossible: break;
    }
    DSM_CHECK(false, "block 0x{:x} in {}: {}", static_cast<uint64_t>(block), name(env_.entry(block).state), name(action));
  }

  void wake(Thread thread, Block block, bool write) {
    ThreadHold& hold = env_.hold(thread);
    if (coherence::on_wake(hold, block, write)) env_.entry(block).holders++;
    env_.start_timer(thread, hold.backoff);
    env_.map(thread, block, write);
  }

  // Who waits gets what the state allows, writers first; who still waits has a request under way when this returns.
  void serve_waiters(Block block) {
    for (const bool write : {true, false}) {
      Thread thread{};
      while (env_.first_waiter(block, write, thread)) {
        AgentActions actions;
        coherence::step(env_.entry(block), write ? AgentEvent::Write : AgentEvent::Read, actions);
        const bool served = actions.has(AgentAction::MapRead) || actions.has(AgentAction::MapWrite);
        if (served) {
          env_.end_wait(thread);
          wake(thread, block, write);
          continue;
        }
        for (const AgentAction action : actions)
          if (action != AgentAction::Wait) perform(action, block);
        break;
      }
    }
  }

  void recall(Block block, Recall what) {
    AgentEntry& entry = env_.entry(block);
    DSM_CHECK(entry.deferred == Recall::None, "block 0x{:x}: a second recall", static_cast<uint64_t>(block));
    const bool held = entry.holders != 0;
    AgentActions actions;
    if (what == Recall::Fetch && entry.state == AgentState::SM && planted(Mistake::EarlyFetchAnswered))
      return env_.send(MessageType::BlockBack, block, true);
    if (what == Recall::Inv && entry.state == AgentState::IS && planted(Mistake::InvBeforeGrantAnswered))
      return env_.send(MessageType::InvAck, block, false);
    if (what == Recall::Inv && entry.state == AgentState::SM && planted(Mistake::UpgradeKeepsInv)) {
      entry.deferred = what;
      return;
    }
    if (what == Recall::Inv && held && planted(Mistake::InvAckBeforeWithdraw)) env_.send(MessageType::InvAck, block, false);
    coherence::step(entry, event_of(what, held), actions);
    for (const AgentAction action : actions) {
      if (action != AgentAction::Defer) {
        perform(action, block);
        continue;
      }
      const bool before_grant = entry.state == AgentState::IS || entry.state == AgentState::IM;
      if (before_grant && planted(Mistake::RecallBeforeGrantForgotten)) continue;
      if (what == Recall::Inv && held && planted(Mistake::InvAckBeforeWithdraw)) continue;
      entry.deferred = what;
      env_.note_deferred(block);
    }
  }

  // A recall that waited is served when nobody holds the block any longer and the grant that it had overtaken is here.
  void serve_recall(Block block) {
    AgentEntry& entry = env_.entry(block);
    if (entry.deferred == Recall::None || entry.holders != 0) return;
    const bool ready = entry.deferred == Recall::Inv
                           ? entry.state == AgentState::S || (entry.state == AgentState::SM && !planted(Mistake::UpgradeKeepsInv))
                           : entry.state == AgentState::M;
    if (!ready) return;
    const Recall what = entry.deferred;
    entry.deferred = Recall::None;
    env_.note_undeferred(block);
    act(block, event_of(what, false));
  }

  void release(const Released& released) {
    for (uint32_t i = 0; i < released.count; i++) env_.entry(static_cast<Block>(released.blocks[i])).holders--;
    for (uint32_t i = 0; i < released.count; i++) serve_recall(static_cast<Block>(released.blocks[i]));
  }

  static AgentEvent event_of(Recall what, bool held) {
    switch (what) {
      case Recall::Inv: return held ? AgentEvent::Inv_Held : AgentEvent::Inv_Free;
      case Recall::Fetch: return held ? AgentEvent::Fetch_Held : AgentEvent::Fetch_Free;
      case Recall::FetchInv: return held ? AgentEvent::FetchInv_Held : AgentEvent::FetchInv_Free;
      case Recall::None: break;
    }
    return AgentEvent::Inv_Free;
  }

  Env& env_;
};

}  // namespace farpage::coherence
