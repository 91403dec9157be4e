// The directory of a home as a table: one entry a block, (state, event) -> (state, actions). Pure: no I/O, clock, heap, lock.
//
// One transaction a block at a time; what comes meanwhile is deferred. Grants need no acknowledgement (no Unblock): evictions
// are acknowledged, an agent has one request under way per block, and every message arrives exactly once, so a recall that
// overtakes its grant is recognised by the agent (docs/protocol.md has the argument and where it is checked).
//
// The home's own domain is an agent like any other. A zero entry means "owned by the home's own agent": memory that nobody
// else has asked for costs nothing.
#pragma once

#include <cstdint>

#include "runtime/base/ids.hpp"
#include "runtime/coherence/action_list.hpp"
#include "runtime/coherence/message.hpp"

namespace farpage::coherence {

enum class DirState : uint8_t {
  Owned,       // one agent may write; home memory is old
  Uncached,    // no copy anywhere; home memory is right
  Shared,      // read copies; home memory is right
  BusyInvM,    // read copies are being withdrawn for a GetM
  BusyInvUp,   // ... for an Upgrade: the requester keeps its bytes
  BusyFetchS,  // the owner is being asked for the bytes, for a GetS
  BusyFetchM,  // ... for a GetM
};
inline constexpr uint32_t kDirStates = 7;
constexpr bool is_busy(DirState state) { return state >= DirState::BusyInvM; }

/// 16 bytes. Up to 64 domains the sharers are a bit vector; `format` names the encoding, and owner and requester have room
/// for 1,024 (10 bits), so that coarse vectors or limited pointers can follow without another layout.
struct DirectoryEntry {
  uint64_t sharers = 0;        // by agent; while invalidations are under way: who still owes its InvAck
  uint16_t owner_code = 0;     // 0: the home's own agent; else agent + 1 (Owned, BusyFetch*)
  uint16_t requester = 0;      // Busy*
  DirState state = DirState::Owned;
  uint8_t format = 0;          // 0: bit vector
  uint16_t deferred = 0;       // requests that wait

  AgentId owner(AgentId home) const {
    return owner_code == 0 ? home : AgentId{static_cast<uint16_t>(owner_code - 1)};
  }
  void set_owner(AgentId agent, AgentId home) {
    owner_code = agent == home ? uint16_t{0} : static_cast<uint16_t>(agent.value + 1);
  }
  bool shares(AgentId agent) const { return (sharers >> agent.value & 1) != 0; }
};
static_assert(sizeof(DirectoryEntry) == 16);

enum class DirEvent : uint8_t {
  GetS,
  GetM_Alone,      // GetM, or an Upgrade of somebody who is no sharer any more; nobody else shares
  GetM_Others,
  Upgrade_Alone,   // the requester is the only sharer
  Upgrade_Others,
  PutS_Some,       // a sharer goes, others stay
  PutS_Last,
  PutS_Stale,      // it was invalidated meanwhile
  PutM_Owner,
  PutM_Stale,      // the block was fetched meanwhile
  InvAck_Some,
  InvAck_Last,
  BlockBack_Kept,
  BlockBack,
};
inline constexpr uint32_t kDirEvents = 14;

enum class DirAction : uint8_t {
  None,
  TakeRequest,    // remember the requester
  AddRequester,   // the requester becomes a sharer
  AddSender,      // the sender stays a sharer
  RemoveSender,
  RemoveRequester,
  ClearSharers,
  MakeOwner,      // the requester owns the block
  SendInvOthers,  // to all sharers but the requester, who all owe an InvAck now
  SendFetch,
  SendFetchInv,
  StoreBlock,     // the message's bytes are home memory now
  SendDataS,
  SendDataM,
  SendUpgAck,
  SendPutAck,
  Defer,
  Impossible,     // a broken invariant
};

struct DirRow {
  DirState in;
  DirEvent on;
  DirState next;
  DirAction actions[4];
};

using DirActions = ActionList<DirAction, 4>;

DirEvent classify(const DirectoryEntry& entry, const Message& message, AgentId home);

/// Moves the entry's state and appends what is to be done, in order. The driver (home_driver.hpp) performs it.
void step(DirectoryEntry& entry, DirEvent event, DirActions& out);

const DirRow* directory_rows(uint32_t& count);
const char* name(DirState state);
const char* name(DirEvent event);
const char* name(DirAction action);

}  // namespace farpage::coherence
