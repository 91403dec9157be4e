#include "runtime/coherence/directory.hpp"

#include "runtime/coherence/mistakes.hpp"
#include "runtime/coherence/row_coverage.hpp"

namespace farpage::coherence {
namespace {

using S = DirState;
using E = DirEvent;
using A = DirAction;

// classify() speaks of _Owner, _Some, _Last and Upgrade_* only in Owned and Shared: while the home is busy an eviction is stale
// already, since the recall under way is answered all the same, and an Upgrade is judged again when its turn comes.
// clang-format off
constexpr DirRow kDirectory[] = {
    {S::Owned, E::GetS, S::BusyFetchS, {A::TakeRequest, A::SendFetch}},
    {S::Owned, E::GetM_Alone, S::BusyFetchM, {A::TakeRequest, A::SendFetchInv}},
    {S::Owned, E::GetM_Others, S::Owned, {A::Impossible}},
    {S::Owned, E::Upgrade_Alone, S::Owned, {A::Impossible}},
    {S::Owned, E::Upgrade_Others, S::Owned, {A::Impossible}},
    {S::Owned, E::PutS_Some, S::Owned, {A::Impossible}},
    {S::Owned, E::PutS_Last, S::Owned, {A::Impossible}},
    // its read copy was invalidated for the owner while the PutS was on its way
    {S::Owned, E::PutS_Stale, S::Owned, {A::SendPutAck}},
    {S::Owned, E::PutM_Owner, S::Uncached, {A::StoreBlock, A::SendPutAck}},
    // the bytes were fetched from the evicting agent meanwhile; newer ones exist
    {S::Owned, E::PutM_Stale, S::Owned, {A::SendPutAck}},
    {S::Owned, E::InvAck_Some, S::Owned, {A::Impossible}},
    {S::Owned, E::InvAck_Last, S::Owned, {A::Impossible}},
    {S::Owned, E::BlockBack_Kept, S::Owned, {A::Impossible}},
    {S::Owned, E::BlockBack, S::Owned, {A::Impossible}},
    {S::Uncached, E::GetS, S::Shared, {A::TakeRequest, A::AddRequester, A::SendDataS}},
    {S::Uncached, E::GetM_Alone, S::Owned, {A::TakeRequest, A::MakeOwner, A::SendDataM}},
    {S::Uncached, E::GetM_Others, S::Uncached, {A::Impossible}},
    {S::Uncached, E::Upgrade_Alone, S::Uncached, {A::Impossible}},
    {S::Uncached, E::Upgrade_Others, S::Uncached, {A::Impossible}},
    {S::Uncached, E::PutS_Some, S::Uncached, {A::Impossible}},
    {S::Uncached, E::PutS_Last, S::Uncached, {A::Impossible}},
    {S::Uncached, E::PutS_Stale, S::Uncached, {A::SendPutAck}},
    {S::Uncached, E::PutM_Owner, S::Uncached, {A::Impossible}},
    {S::Uncached, E::PutM_Stale, S::Uncached, {A::SendPutAck}},
    {S::Uncached, E::InvAck_Some, S::Uncached, {A::Impossible}},
    {S::Uncached, E::InvAck_Last, S::Uncached, {A::Impossible}},
    {S::Uncached, E::BlockBack_Kept, S::Uncached, {A::Impossible}},
    {S::Uncached, E::BlockBack, S::Uncached, {A::Impossible}},
    {S::Shared, E::GetS, S::Shared, {A::TakeRequest, A::AddRequester, A::SendDataS}},
    {S::Shared, E::GetM_Alone, S::Shared, {A::Impossible}},
    {S::Shared, E::GetM_Others, S::BusyInvM, {A::TakeRequest, A::SendInvOthers}},
    {S::Shared, E::Upgrade_Alone, S::Owned, {A::TakeRequest, A::ClearSharers, A::MakeOwner, A::SendUpgAck}},
    {S::Shared, E::Upgrade_Others, S::BusyInvUp, {A::TakeRequest, A::RemoveRequester, A::SendInvOthers}},
    {S::Shared, E::PutS_Some, S::Shared, {A::RemoveSender, A::SendPutAck}},
    {S::Shared, E::PutS_Last, S::Uncached, {A::RemoveSender, A::SendPutAck}},
    {S::Shared, E::PutS_Stale, S::Shared, {A::SendPutAck}},
    {S::Shared, E::PutM_Owner, S::Shared, {A::Impossible}},
    {S::Shared, E::PutM_Stale, S::Shared, {A::SendPutAck}},
    {S::Shared, E::InvAck_Some, S::Shared, {A::Impossible}},
    {S::Shared, E::InvAck_Last, S::Shared, {A::Impossible}},
    {S::Shared, E::BlockBack_Kept, S::Shared, {A::Impossible}},
    {S::Shared, E::BlockBack, S::Shared, {A::Impossible}},
    {S::BusyInvM, E::GetS, S::BusyInvM, {A::Defer}},
    {S::BusyInvM, E::GetM_Alone, S::BusyInvM, {A::Defer}},
    {S::BusyInvM, E::GetM_Others, S::BusyInvM, {A::Defer}},
    {S::BusyInvM, E::Upgrade_Alone, S::BusyInvM, {A::Impossible}},
    {S::BusyInvM, E::Upgrade_Others, S::BusyInvM, {A::Impossible}},
    {S::BusyInvM, E::PutS_Some, S::BusyInvM, {A::Impossible}},
    {S::BusyInvM, E::PutS_Last, S::BusyInvM, {A::Impossible}},
    // its Inv is on the way and will be answered all the same; the PutS finds nothing to remove afterwards
    {S::BusyInvM, E::PutS_Stale, S::BusyInvM, {A::Defer}},
    {S::BusyInvM, E::PutM_Owner, S::BusyInvM, {A::Impossible}},
    {S::BusyInvM, E::PutM_Stale, S::BusyInvM, {A::Defer}},
    {S::BusyInvM, E::InvAck_Some, S::BusyInvM, {A::RemoveSender}},
    {S::BusyInvM, E::InvAck_Last, S::Owned, {A::RemoveSender, A::MakeOwner, A::SendDataM}},
    {S::BusyInvM, E::BlockBack_Kept, S::BusyInvM, {A::Impossible}},
    {S::BusyInvM, E::BlockBack, S::BusyInvM, {A::Impossible}},
    {S::BusyInvUp, E::GetS, S::BusyInvUp, {A::Defer}},
    {S::BusyInvUp, E::GetM_Alone, S::BusyInvUp, {A::Defer}},
    {S::BusyInvUp, E::GetM_Others, S::BusyInvUp, {A::Defer}},
    {S::BusyInvUp, E::Upgrade_Alone, S::BusyInvUp, {A::Impossible}},
    {S::BusyInvUp, E::Upgrade_Others, S::BusyInvUp, {A::Impossible}},
    {S::BusyInvUp, E::PutS_Some, S::BusyInvUp, {A::Impossible}},
    {S::BusyInvUp, E::PutS_Last, S::BusyInvUp, {A::Impossible}},
    {S::BusyInvUp, E::PutS_Stale, S::BusyInvUp, {A::Defer}},
    {S::BusyInvUp, E::PutM_Owner, S::BusyInvUp, {A::Impossible}},
    {S::BusyInvUp, E::PutM_Stale, S::BusyInvUp, {A::Defer}},
    {S::BusyInvUp, E::InvAck_Some, S::BusyInvUp, {A::RemoveSender}},
    {S::BusyInvUp, E::InvAck_Last, S::Owned, {A::RemoveSender, A::MakeOwner, A::SendUpgAck}},
    {S::BusyInvUp, E::BlockBack_Kept, S::BusyInvUp, {A::Impossible}},
    {S::BusyInvUp, E::BlockBack, S::BusyInvUp, {A::Impossible}},
    {S::BusyFetchS, E::GetS, S::BusyFetchS, {A::Defer}},
    {S::BusyFetchS, E::GetM_Alone, S::BusyFetchS, {A::Defer}},
    {S::BusyFetchS, E::GetM_Others, S::BusyFetchS, {A::Impossible}},
    {S::BusyFetchS, E::Upgrade_Alone, S::BusyFetchS, {A::Impossible}},
    {S::BusyFetchS, E::Upgrade_Others, S::BusyFetchS, {A::Impossible}},
    {S::BusyFetchS, E::PutS_Some, S::BusyFetchS, {A::Impossible}},
    {S::BusyFetchS, E::PutS_Last, S::BusyFetchS, {A::Impossible}},
    {S::BusyFetchS, E::PutS_Stale, S::BusyFetchS, {A::Defer}},
    {S::BusyFetchS, E::PutM_Owner, S::BusyFetchS, {A::Impossible}},
    // the owner evicts: it answers the fetch from the kept bytes, and this is stale from now on
    {S::BusyFetchS, E::PutM_Stale, S::BusyFetchS, {A::Defer}},
    {S::BusyFetchS, E::InvAck_Some, S::BusyFetchS, {A::Impossible}},
    {S::BusyFetchS, E::InvAck_Last, S::BusyFetchS, {A::Impossible}},
    {S::BusyFetchS, E::BlockBack_Kept, S::Shared, {A::StoreBlock, A::AddSender, A::AddRequester, A::SendDataS}},
    {S::BusyFetchS, E::BlockBack, S::Shared, {A::StoreBlock, A::AddRequester, A::SendDataS}},
    {S::BusyFetchM, E::GetS, S::BusyFetchM, {A::Defer}},
    {S::BusyFetchM, E::GetM_Alone, S::BusyFetchM, {A::Defer}},
    {S::BusyFetchM, E::GetM_Others, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::Upgrade_Alone, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::Upgrade_Others, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::PutS_Some, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::PutS_Last, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::PutS_Stale, S::BusyFetchM, {A::Defer}},
    {S::BusyFetchM, E::PutM_Owner, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::PutM_Stale, S::BusyFetchM, {A::Defer}},
    {S::BusyFetchM, E::InvAck_Some, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::InvAck_Last, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::BlockBack_Kept, S::BusyFetchM, {A::Impossible}},
    {S::BusyFetchM, E::BlockBack, S::Owned, {A::StoreBlock, A::MakeOwner, A::SendDataM}},
};
// clang-format on
static_assert(is_total(kDirectory, kDirStates, kDirEvents), "every state x event has exactly one row");

}  // namespace

DirEvent classify(const DirectoryEntry& entry, const Message& message, AgentId home) {
  const uint64_t sender = uint64_t{1} << message.from.value;
  const bool others = (entry.sharers & ~sender) != 0;
  const bool sharer = (entry.sharers & sender) != 0;
  switch (message.type) {
    case MessageType::GetS: return E::GetS;
    case MessageType::GetM: return others ? E::GetM_Others : E::GetM_Alone;
    case MessageType::Upgrade:
      if (entry.state == S::Shared && (sharer || planted(Mistake::UpgradeBelieved)))
        return others ? E::Upgrade_Others : E::Upgrade_Alone;
      return others ? E::GetM_Others : E::GetM_Alone;
    case MessageType::PutS:
      if (entry.state != S::Shared || !sharer || planted(Mistake::PutSForgotten)) return E::PutS_Stale;
      return others ? E::PutS_Some : E::PutS_Last;
    case MessageType::PutM:
      if (planted(Mistake::StaleWritebackApplied) && entry.state == S::Owned) return E::PutM_Owner;
      return entry.state == S::Owned && entry.owner(home) == message.from ? E::PutM_Owner : E::PutM_Stale;
    case MessageType::InvAck: return others ? E::InvAck_Some : E::InvAck_Last;
    case MessageType::BlockBack: return message.keeps_copy ? E::BlockBack_Kept : E::BlockBack;
    default: return E::InvAck_Some;  // no message to a home: the row says Impossible in every state that expects no InvAck
  }
}

void step(DirectoryEntry& entry, DirEvent event, DirActions& out) {
  const uint32_t index = static_cast<uint32_t>(entry.state) * kDirEvents + static_cast<uint32_t>(event);
  note_row(Table::Directory, index);
  const DirRow& row = kDirectory[index];
  for (const DirAction action : row.actions)
    if (action != DirAction::None) out.add(action);
  entry.state = row.next;
}

const DirRow* directory_rows(uint32_t& count) {
  count = kDirStates * kDirEvents;
  return kDirectory;
}

const char* name(DirState state) {
  constexpr const char* kNames[] = {"Owned", "Uncached", "Shared", "BusyInvM", "BusyInvUp", "BusyFetchS", "BusyFetchM"};
  return kNames[static_cast<uint8_t>(state)];
}
const char* name(DirEvent event) {
  constexpr const char* kNames[] = {"GetS", "GetM_Alone", "GetM_Others", "Upgrade_Alone", "Upgrade_Others", "PutS_Some", "PutS_Last", "PutS_Stale", "PutM_Owner", "PutM_Stale", "InvAck_Some", "InvAck_Last", "BlockBack_Kept", "BlockBack"};
  return kNames[static_cast<uint8_t>(event)];
}
const char* name(DirAction action) {
  constexpr const char* kNames[] = {"None", "TakeRequest", "AddRequester", "AddSender", "RemoveSender", "RemoveRequester", "ClearSharers", "MakeOwner", "SendInvOthers", "SendFetch", "SendFetchInv", "StoreBlock", "SendDataS", "SendDataM", "SendUpgAck", "SendPutAck", "Defer", "Impossible"};
  return kNames[static_cast<uint8_t>(action)];
}

}  // namespace farpage::coherence
