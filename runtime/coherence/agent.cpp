#include "runtime/coherence/agent.hpp"

#include "runtime/coherence/row_coverage.hpp"

namespace farpage::coherence {
namespace {

using S = AgentState;
using E = AgentEvent;
using A = AgentAction;

// Only S, M and SM can be held: a held block is neither evicted nor recalled, and its hold begins with a copy.
// clang-format off
constexpr AgentRow kAgent[] = {
    {S::I, E::Read, S::IS, {A::Wait, A::TakeFrame, A::SendGetS}},
    {S::I, E::Write, S::IM, {A::Wait, A::TakeFrame, A::SendGetM}},
    {S::I, E::DataS, S::I, {A::Impossible}},
    {S::I, E::DataM, S::I, {A::Impossible}},
    {S::I, E::UpgAck, S::I, {A::Impossible}},
    {S::I, E::Inv_Free, S::I, {A::Impossible}},
    {S::I, E::Inv_Held, S::I, {A::Impossible}},
    {S::I, E::Fetch_Free, S::I, {A::Impossible}},
    {S::I, E::Fetch_Held, S::I, {A::Impossible}},
    {S::I, E::FetchInv_Free, S::I, {A::Impossible}},
    {S::I, E::FetchInv_Held, S::I, {A::Impossible}},
    {S::I, E::PutAck, S::I, {A::Impossible}},
    {S::I, E::Evict, S::I, {A::Impossible}},
    {S::S, E::Read, S::S, {A::MapRead}},
    {S::S, E::Write, S::SM, {A::Wait, A::SendUpgrade}},
    {S::S, E::DataS, S::S, {A::Impossible}},
    {S::S, E::DataM, S::S, {A::Impossible}},
    {S::S, E::UpgAck, S::S, {A::Impossible}},
    {S::S, E::Inv_Free, S::I, {A::Withdraw, A::ReleaseFrame, A::SendInvAck, A::Pump}},
    {S::S, E::Inv_Held, S::S, {A::Defer}},
    {S::S, E::Fetch_Free, S::S, {A::Impossible}},
    {S::S, E::Fetch_Held, S::S, {A::Impossible}},
    {S::S, E::FetchInv_Free, S::S, {A::Impossible}},
    {S::S, E::FetchInv_Held, S::S, {A::Impossible}},
    {S::S, E::PutAck, S::S, {A::Impossible}},
    {S::S, E::Evict, S::SV, {A::Withdraw, A::ReleaseFrame, A::SendPutS}},
    {S::M, E::Read, S::M, {A::MapRead}},
    {S::M, E::Write, S::M, {A::MapWrite}},
    {S::M, E::DataS, S::M, {A::Impossible}},
    {S::M, E::DataM, S::M, {A::Impossible}},
    {S::M, E::UpgAck, S::M, {A::Impossible}},
    {S::M, E::Inv_Free, S::M, {A::Impossible}},
    {S::M, E::Inv_Held, S::M, {A::Impossible}},
    {S::M, E::Fetch_Free, S::S, {A::Downgrade, A::SendBlockBackKept, A::Pump}},
    {S::M, E::Fetch_Held, S::M, {A::Defer}},
    {S::M, E::FetchInv_Free, S::I, {A::WithdrawDirty, A::ReleaseFrame, A::SendBlockBack, A::Pump}},
    {S::M, E::FetchInv_Held, S::M, {A::Defer}},
    {S::M, E::PutAck, S::M, {A::Impossible}},
    {S::M, E::Evict, S::EV, {A::WithdrawDirty, A::ReleaseFrame, A::SendPutM}},
    {S::IS, E::Read, S::IS, {A::Wait}},
    {S::IS, E::Write, S::IS, {A::Wait}},
    {S::IS, E::DataS, S::S, {A::InstallRead, A::Granted}},
    {S::IS, E::DataM, S::IS, {A::Impossible}},
    {S::IS, E::UpgAck, S::IS, {A::Impossible}},
    // it has overtaken DataS: the reader gets its turn first
    {S::IS, E::Inv_Free, S::IS, {A::Defer}},
    {S::IS, E::Inv_Held, S::IS, {A::Impossible}},
    {S::IS, E::Fetch_Free, S::IS, {A::Impossible}},
    {S::IS, E::Fetch_Held, S::IS, {A::Impossible}},
    {S::IS, E::FetchInv_Free, S::IS, {A::Impossible}},
    {S::IS, E::FetchInv_Held, S::IS, {A::Impossible}},
    {S::IS, E::PutAck, S::IS, {A::Impossible}},
    {S::IS, E::Evict, S::IS, {A::Impossible}},
    {S::IM, E::Read, S::IM, {A::Wait}},
    {S::IM, E::Write, S::IM, {A::Wait}},
    {S::IM, E::DataS, S::IM, {A::Impossible}},
    {S::IM, E::DataM, S::M, {A::InstallWrite, A::Granted}},
    {S::IM, E::UpgAck, S::IM, {A::Impossible}},
    {S::IM, E::Inv_Free, S::IM, {A::Impossible}},
    {S::IM, E::Inv_Held, S::IM, {A::Impossible}},
    // it has overtaken DataM
    {S::IM, E::Fetch_Free, S::IM, {A::Defer}},
    {S::IM, E::Fetch_Held, S::IM, {A::Impossible}},
    {S::IM, E::FetchInv_Free, S::IM, {A::Defer}},
    {S::IM, E::FetchInv_Held, S::IM, {A::Impossible}},
    {S::IM, E::PutAck, S::IM, {A::Impossible}},
    {S::IM, E::Evict, S::IM, {A::Impossible}},
    {S::SM, E::Read, S::SM, {A::MapRead}},
    {S::SM, E::Write, S::SM, {A::Wait}},
    {S::SM, E::DataS, S::SM, {A::Impossible}},
    {S::SM, E::DataM, S::SM, {A::Impossible}},
    {S::SM, E::UpgAck, S::M, {A::Granted}},
    // it concerns the old copy, whatever becomes of the upgrade: never kept for the grant
    {S::SM, E::Inv_Free, S::IM, {A::Withdraw, A::SendInvAck}},
    {S::SM, E::Inv_Held, S::SM, {A::Defer}},
    // the upgrade was granted: UpgAck is on its way
    {S::SM, E::Fetch_Free, S::SM, {A::Defer}},
    {S::SM, E::Fetch_Held, S::SM, {A::Defer}},
    {S::SM, E::FetchInv_Free, S::SM, {A::Defer}},
    {S::SM, E::FetchInv_Held, S::SM, {A::Defer}},
    {S::SM, E::PutAck, S::SM, {A::Impossible}},
    {S::SM, E::Evict, S::SM, {A::Impossible}},
    {S::EV, E::Read, S::EV, {A::Wait}},
    {S::EV, E::Write, S::EV, {A::Wait}},
    {S::EV, E::DataS, S::EV, {A::Impossible}},
    {S::EV, E::DataM, S::EV, {A::Impossible}},
    {S::EV, E::UpgAck, S::EV, {A::Impossible}},
    {S::EV, E::Inv_Free, S::EV, {A::Impossible}},
    {S::EV, E::Inv_Held, S::EV, {A::Impossible}},
    // answered from the kept bytes; the PutM under way will be stale
    {S::EV, E::Fetch_Free, S::II, {A::SendBlockBack, A::DropKept}},
    {S::EV, E::Fetch_Held, S::EV, {A::Impossible}},
    {S::EV, E::FetchInv_Free, S::II, {A::SendBlockBack, A::DropKept}},
    {S::EV, E::FetchInv_Held, S::EV, {A::Impossible}},
    {S::EV, E::PutAck, S::I, {A::DropKept, A::Pump}},
    {S::EV, E::Evict, S::EV, {A::Impossible}},
    {S::SV, E::Read, S::SV, {A::Wait}},
    {S::SV, E::Write, S::SV, {A::Wait}},
    {S::SV, E::DataS, S::SV, {A::Impossible}},
    {S::SV, E::DataM, S::SV, {A::Impossible}},
    {S::SV, E::UpgAck, S::SV, {A::Impossible}},
    // nothing left to drop
    {S::SV, E::Inv_Free, S::II, {A::SendInvAck}},
    {S::SV, E::Inv_Held, S::SV, {A::Impossible}},
    {S::SV, E::Fetch_Free, S::SV, {A::Impossible}},
    {S::SV, E::Fetch_Held, S::SV, {A::Impossible}},
    {S::SV, E::FetchInv_Free, S::SV, {A::Impossible}},
    {S::SV, E::FetchInv_Held, S::SV, {A::Impossible}},
    {S::SV, E::PutAck, S::I, {A::Pump}},
    {S::SV, E::Evict, S::SV, {A::Impossible}},
    {S::II, E::Read, S::II, {A::Wait}},
    {S::II, E::Write, S::II, {A::Wait}},
    {S::II, E::DataS, S::II, {A::Impossible}},
    {S::II, E::DataM, S::II, {A::Impossible}},
    {S::II, E::UpgAck, S::II, {A::Impossible}},
    {S::II, E::Inv_Free, S::II, {A::Impossible}},
    {S::II, E::Inv_Held, S::II, {A::Impossible}},
    {S::II, E::Fetch_Free, S::II, {A::Impossible}},
    {S::II, E::Fetch_Held, S::II, {A::Impossible}},
    {S::II, E::FetchInv_Free, S::II, {A::Impossible}},
    {S::II, E::FetchInv_Held, S::II, {A::Impossible}},
    {S::II, E::PutAck, S::I, {A::Pump}},
    {S::II, E::Evict, S::II, {A::Impossible}},
};
// clang-format on
static_assert(is_total(kAgent, kAgentStates, kAgentEvents), "every state x event has exactly one row");

}  // namespace

void step(AgentEntry& entry, AgentEvent event, AgentActions& out) {
  const uint32_t index = static_cast<uint32_t>(entry.state) * kAgentEvents + static_cast<uint32_t>(event);
  note_row(Table::Agent, index);
  const AgentRow& row = kAgent[index];
  for (const AgentAction action : row.actions)
    if (action != AgentAction::None) out.add(action);
  entry.state = row.next;
}

const AgentRow* agent_rows(uint32_t& count) {
  count = kAgentStates * kAgentEvents;
  return kAgent;
}

const char* name(AgentState state) {
  constexpr const char* kNames[] = {"I", "S", "M", "IS", "IM", "SM", "EV", "SV", "II"};
  return kNames[static_cast<uint8_t>(state)];
}
const char* name(AgentEvent event) {
  constexpr const char* kNames[] = {"Read", "Write", "DataS", "DataM", "UpgAck", "Inv_Free", "Inv_Held", "Fetch_Free", "Fetch_Held", "FetchInv_Free", "FetchInv_Held", "PutAck", "Evict"};
  return kNames[static_cast<uint8_t>(event)];
}
const char* name(AgentAction action) {
  constexpr const char* kNames[] = {"None", "Wait", "MapRead", "MapWrite", "TakeFrame", "SendGetS", "SendGetM", "SendUpgrade", "InstallRead", "InstallWrite", "Granted", "Downgrade", "Withdraw", "WithdrawDirty", "DropKept", "ReleaseFrame", "SendInvAck", "SendBlockBack", "SendBlockBackKept", "SendPutS", "SendPutM", "Defer", "Pump", "Impossible"};
  return kNames[static_cast<uint8_t>(action)];
}

}  // namespace farpage::coherence
