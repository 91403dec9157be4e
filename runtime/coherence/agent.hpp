// The agent's side of a block as a table: what a domain does about local faults, grants and recalls. Pure: no I/O, clock,
// heap, lock. One entry a block; a zero entry means Invalid (at the home the runtime starts entries as M: agent_driver.hpp).
#pragma once

#include <cstdint>

#include "runtime/coherence/action_list.hpp"
#include "runtime/coherence/message.hpp"

namespace farpage::coherence {

enum class AgentState : uint8_t {
  I,   // no copy
  S,   // read copy
  M,   // the only copy, may be written
  IS,  // a read copy has been asked for
  IM,  // a writable copy has been asked for
  SM,  // read copy; the right to write has been asked for
  EV,  // PutM under way, bytes kept until PutAck
  SV,  // PutS under way
  II,  // PutS or PutM under way, the copy was recalled meanwhile
};
inline constexpr uint32_t kAgentStates = 9;

/// A recall that waits: for the end of a hold, or for the grant that it has overtaken. One slot is enough.
enum class Recall : uint8_t { None, Inv, Fetch, FetchInv };

/// 8 bytes.
struct AgentEntry {
  AgentState state = AgentState::I;
  Recall deferred = Recall::None;
  uint16_t holders = 0;  // threads in whose held set the block is
  uint32_t pad = 0;
};
static_assert(sizeof(AgentEntry) == 8);

constexpr bool readable(AgentState state) { return state == AgentState::S || state == AgentState::M || state == AgentState::SM; }

enum class AgentEvent : uint8_t {
  Read,           // a thread's load faulted, or waits
  Write,          // a thread's store faulted, or waits
  DataS,
  DataM,
  UpgAck,
  Inv_Free,       // nobody holds the block
  Inv_Held,
  Fetch_Free,
  Fetch_Held,
  FetchInv_Free,
  FetchInv_Held,
  PutAck,
  Evict,          // the frame is wanted for something else; nobody holds the block
};
inline constexpr uint32_t kAgentEvents = 13;

enum class AgentAction : uint8_t {
  None,
  Wait,           // the thread waits
  MapRead,        // the thread's rank maps the block read-only, the thread is woken
  MapWrite,
  TakeFrame,      // a frame is needed from here on
  SendGetS,
  SendGetM,
  SendUpgrade,
  InstallRead,    // the grant's bytes become the frame
  InstallWrite,
  Granted,        // serve who waits
  Downgrade,      // nobody in the domain may write any more
  Withdraw,       // nobody in the domain maps it any more; a read copy's bytes may go
  WithdrawDirty,  // ... the bytes are kept until they are sent, or until PutAck
  DropKept,       // the kept bytes have been sent, or are not needed
  ReleaseFrame,
  SendInvAck,
  SendBlockBack,
  SendBlockBackKept,
  SendPutS,
  SendPutM,
  Defer,          // the recall waits in the entry
  Pump,           // ask again for those who wait
  Impossible,
};

struct AgentRow {
  AgentState in;
  AgentEvent on;
  AgentState next;
  AgentAction actions[4];
};

using AgentActions = ActionList<AgentAction, 4>;

/// Moves the entry's state and appends what is to be done, in order. The driver performs it.
void step(AgentEntry& entry, AgentEvent event, AgentActions& out);

const AgentRow* agent_rows(uint32_t& count);
const char* name(AgentState state);
const char* name(AgentEvent event);
const char* name(AgentAction action);

}  // namespace farpage::coherence
