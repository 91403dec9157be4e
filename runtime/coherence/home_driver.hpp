// Everything a home does about one message: runs the directory table, defers what must wait, and has the Env perform the
// actions. Pure orchestration, the same in runtime, explorer and simulator. Order: table first, bytes second, message last.
//
// Env (one home):
//   DirectoryEntry& entry(block)
//   AgentId home()                          the home's own agent
//   void send(to, type, block)              DataS and DataM carry home memory's bytes
//   void store(block)                       the bytes of the message being handled become home memory
//   void defer(message)                     it waits behind those that wait for the same block
//   bool take_deferred(block, message&)     the oldest of them, taken out
#pragma once

#include "runtime/base/check.hpp"
#include "runtime/coherence/directory.hpp"
#include "runtime/coherence/message.hpp"
#include "runtime/coherence/mistakes.hpp"

namespace farpage::coherence {

template <class Env>
class HomeDriver {
 public:
  using Block = typename Env::Block;

  explicit HomeDriver(Env& env) : env_(env) {}

  /// A request, a writeback or an answer. Deferred requests that can go on afterwards do so before this returns.
  void on_message(const Message& message) {
    handle(message);
    DirectoryEntry& entry = env_.entry(static_cast<Block>(message.block));
    while (entry.deferred != 0 && !is_busy(entry.state)) {
      Message next;
      const bool found = env_.take_deferred(static_cast<Block>(message.block), next);
      DSM_CHECK(found, "block 0x{:x}: {} deferred", message.block, entry.deferred);
      entry.deferred--;
      handle(next);
    }
  }

 private:
  void handle(const Message& message) {
    const Block block = static_cast<Block>(message.block);
    DirectoryEntry& entry = env_.entry(block);
    const DirEvent event = classify(entry, message, env_.home());
    DSM_CHECK(!(entry.state == DirState::Owned && message.type <= MessageType::Upgrade && entry.owner(env_.home()) == message.from),
              "block 0x{:x}: its owner {} sent {}", message.block, message.from.value, name(message.type));
    const DirState before = entry.state;
    DirActions actions;
    coherence::step(entry, event, actions);
    for (const DirAction action : actions) {
      DSM_CHECK(action != DirAction::Impossible, "block 0x{:x} in {}: {} from {}", message.block, name(before), name(event),
                message.from.value);
      perform(action, entry, block, message);
    }
    if (planted(Mistake::GrantBeforeLastInvAck) && (entry.state == DirState::BusyInvM || entry.state == DirState::BusyInvUp)) {
      const AgentId to{entry.requester};
      if (before == DirState::Shared)
        env_.send(to, entry.state == DirState::BusyInvUp ? MessageType::UpgAck : MessageType::DataM, block);
    }
  }

  void perform(DirAction action, DirectoryEntry& entry, Block block, const Message& message) {
    const AgentId requester{entry.requester};
    const uint64_t sender = uint64_t{1} << message.from.value;
    switch (action) {
      case DirAction::TakeRequest: entry.requester = message.from.value; return;
      case DirAction::AddRequester: entry.sharers |= uint64_t{1} << requester.value; return;
      case DirAction::AddSender: entry.sharers |= sender; return;
      case DirAction::RemoveSender: entry.sharers &= ~sender; return;
      case DirAction::RemoveRequester: entry.sharers &= ~(uint64_t{1} << requester.value); return;
      case DirAction::ClearSharers: entry.sharers = 0; return;
      case DirAction::MakeOwner: entry.set_owner(requester, env_.home()); return;
      case DirAction::SendInvOthers:
        for (uint64_t rest = entry.sharers; rest != 0; rest &= rest - 1) {
          const AgentId sharer{static_cast<uint16_t>(__builtin_ctzll(rest))};
          env_.send(sharer, MessageType::Inv, block);
        }
        return;
      case DirAction::SendFetch: return env_.send(entry.owner(env_.home()), MessageType::Fetch, block);
      case DirAction::SendFetchInv: return env_.send(entry.owner(env_.home()), MessageType::FetchInv, block);
      case DirAction::StoreBlock: return env_.store(block);
      case DirAction::SendDataS: return env_.send(requester, MessageType::DataS, block);
      case DirAction::SendDataM:
        if (planted(Mistake::GrantBeforeLastInvAck) && message.type == MessageType::InvAck) return;
        return env_.send(requester, MessageType::DataM, block);
      case DirAction::SendUpgAck:
        if (planted(Mistake::GrantBeforeLastInvAck) && message.type == MessageType::InvAck) return;
        return env_.send(requester, MessageType::UpgAck, block);
      case DirAction::SendPutAck: return env_.send(message.from, MessageType::PutAck, block);
      case DirAction::Defer:
        entry.deferred++;
        return env_.defer(message);
      case DirAction::None:
      case DirAction::Impossible: return;
    }
  }

  Env& env_;
};

}  // namespace farpage::coherence
