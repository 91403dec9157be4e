// The parts of the coherence core one by one, as production code: entries, tables, classification, holds, IMMUTABLE copies.
// What the parts do together is searched by explorer_test and simulation_test.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string>

#include "runtime/coherence/agent.hpp"
#include "runtime/coherence/directory.hpp"
#include "runtime/coherence/hold.hpp"
#include "runtime/coherence/immutable.hpp"

namespace farpage::coherence {
namespace {

constexpr AgentId kHome{0}, kOne{1}, kTwo{2};

DirEvent classified(const DirectoryEntry& entry, MessageType type, AgentId from, bool keeps_copy = false) {
  return classify(entry, {type, from, 0, keeps_copy}, kHome);
}

DirectoryEntry shared_by(uint64_t sharers) {
  DirectoryEntry entry;
  entry.state = DirState::Shared;
  entry.sharers = sharers;
  return entry;
}

template <class Row, class Action>
bool has(const Row& row, Action wanted) {
  for (const Action action : row.actions)
    if (action == wanted) return true;
  return false;
}

bool holds_exactly(const ThreadHold& hold, std::initializer_list<uint64_t> blocks) {
  if (hold.held_count != blocks.size()) return false;
  for (const uint64_t block : blocks)
    if (!hold.holds(block)) return false;
  return true;
}

}  // namespace

TEST_CASE("directory entry: untouched memory means owned by the home's own agent, whichever that is") {
  alignas(DirectoryEntry) std::byte zeros[sizeof(DirectoryEntry)] = {};
  DirectoryEntry entry;
  std::memcpy(&entry, zeros, sizeof entry);
  CHECK(entry.state == DirState::Owned);
  for (const uint16_t home : {0, 1, 63}) CHECK(entry.owner(AgentId{home}) == AgentId{home});
}

TEST_CASE("directory entry: owner and requester have room for 1,024 agents") {
  for (uint16_t home : {0, 5, 1023})
    for (uint16_t agent = 0; agent < 1024; agent++) {
      DirectoryEntry entry;
      entry.set_owner(AgentId{agent}, AgentId{home});
      entry.requester = agent;
      REQUIRE(entry.owner(AgentId{home}) == AgentId{agent});
      REQUIRE(entry.requester == agent);
    }
}

TEST_CASE("directory entry: 64 sharers, each its own bit") {
  for (uint16_t agent = 0; agent < 64; agent++) {
    const DirectoryEntry entry = shared_by(uint64_t{1} << agent);
    for (uint16_t other = 0; other < 64; other++) REQUIRE(entry.shares(AgentId{other}) == (other == agent));
  }
}

TEST_CASE("agent entry: untouched memory means no copy") {
  alignas(AgentEntry) std::byte zeros[sizeof(AgentEntry)] = {};
  AgentEntry entry;
  std::memcpy(&entry, zeros, sizeof entry);
  CHECK(entry.state == AgentState::I);
  CHECK(entry.deferred == Recall::None);
  CHECK(entry.holders == 0);
}

TEST_CASE("tables: a step finds the row of its state and event, moves there, and hands out the row's actions") {
  uint32_t count = 0;
  const DirRow* directory = directory_rows(count);
  for (uint32_t i = 0; i < count; i++) {
    DirectoryEntry entry;
    entry.state = directory[i].in;
    DirActions actions;
    step(entry, directory[i].on, actions);
    const std::string row = std::string(name(directory[i].in)) + " on " + name(directory[i].on);
    CAPTURE(row);
    REQUIRE(entry.state == directory[i].next);
    for (const DirAction action : actions) REQUIRE(has(directory[i], action));
    REQUIRE(actions.count != 0);
  }
  const AgentRow* agent = agent_rows(count);
  for (uint32_t i = 0; i < count; i++) {
    AgentEntry entry;
    entry.state = agent[i].in;
    AgentActions actions;
    step(entry, agent[i].on, actions);
    const std::string row = std::string(name(agent[i].in)) + " on " + name(agent[i].on);
    CAPTURE(row);
    REQUIRE(entry.state == agent[i].next);
    for (const AgentAction action : actions) REQUIRE(has(agent[i], action));
    REQUIRE(actions.count != 0);
  }
}

TEST_CASE("tables: what is impossible or deferred moves no state and does nothing else") {
  uint32_t count = 0;
  const DirRow* directory = directory_rows(count);
  for (uint32_t i = 0; i < count; i++) {
    const DirRow& row = directory[i];
    if (!has(row, DirAction::Impossible) && !has(row, DirAction::Defer)) continue;
    CHECK(row.next == row.in);
    CHECK(row.actions[1] == DirAction::None);
    if (has(row, DirAction::Defer)) CHECK(is_busy(row.in));
  }
  const AgentRow* agent = agent_rows(count);
  for (uint32_t i = 0; i < count; i++) {
    const AgentRow& row = agent[i];
    if (!has(row, AgentAction::Impossible) && !has(row, AgentAction::Defer)) continue;
    CHECK(row.next == row.in);
    CHECK(row.actions[1] == AgentAction::None);
  }
}

TEST_CASE("directory: a grant leaves the right entry behind, and only after the last InvAck or the block") {
  uint32_t count = 0;
  const DirRow* rows = directory_rows(count);
  for (uint32_t i = 0; i < count; i++) {
    const DirRow& row = rows[i];
    const std::string where = std::string(name(row.in)) + " on " + name(row.on);
    CAPTURE(where);
    const bool writable = has(row, DirAction::SendDataM) || has(row, DirAction::SendUpgAck);
    CHECK(writable == has(row, DirAction::MakeOwner));
    if (writable) CHECK(row.next == DirState::Owned);
    if (writable && (row.in == DirState::BusyInvM || row.in == DirState::BusyInvUp)) CHECK(row.on == DirEvent::InvAck_Last);
    if (has(row, DirAction::SendDataS)) {
      CHECK(row.next == DirState::Shared);
      CHECK(has(row, DirAction::AddRequester));
    }
    if (row.in == DirState::BusyFetchM || row.in == DirState::BusyFetchS)
      if (has(row, DirAction::SendDataM) || has(row, DirAction::SendDataS)) CHECK(row.actions[0] == DirAction::StoreBlock);
  }
}

TEST_CASE("agent: page tables change before the message that says so") {
  uint32_t count = 0;
  const AgentRow* rows = agent_rows(count);
  const auto place = [](const AgentRow& row, AgentAction wanted) {
    for (int i = 0; i < 4; i++)
      if (row.actions[i] == wanted) return i;
    return 4;
  };
  for (uint32_t i = 0; i < count; i++) {
    const AgentRow& row = rows[i];
    const std::string where = std::string(name(row.in)) + " on " + name(row.on);
    CAPTURE(where);
    const int answer = std::min({place(row, AgentAction::SendInvAck), place(row, AgentAction::SendBlockBack), place(row, AgentAction::SendBlockBackKept),
                                 place(row, AgentAction::SendPutS), place(row, AgentAction::SendPutM)});
    if (answer == 4) continue;
    const bool loses_reading = readable(row.in) && !readable(row.next);
    if (loses_reading) CHECK(std::min(place(row, AgentAction::Withdraw), place(row, AgentAction::WithdrawDirty)) < answer);
    if (row.in == AgentState::M && row.next == AgentState::S) CHECK(place(row, AgentAction::Downgrade) < answer);
  }
}

TEST_CASE("directory: an Upgrade of somebody who is no sharer any more asks for bytes") {
  CHECK(classified(shared_by(0b010), MessageType::Upgrade, kOne) == DirEvent::Upgrade_Alone);
  CHECK(classified(shared_by(0b110), MessageType::Upgrade, kOne) == DirEvent::Upgrade_Others);
  CHECK(classified(shared_by(0b100), MessageType::Upgrade, kOne) == DirEvent::GetM_Others);
  DirectoryEntry owned;
  owned.set_owner(kTwo, kHome);
  CHECK(classified(owned, MessageType::Upgrade, kOne) == DirEvent::GetM_Alone);
}

TEST_CASE("directory: evictions count only from who still has the copy") {
  CHECK(classified(shared_by(0b110), MessageType::PutS, kOne) == DirEvent::PutS_Some);
  CHECK(classified(shared_by(0b010), MessageType::PutS, kOne) == DirEvent::PutS_Last);
  CHECK(classified(shared_by(0b100), MessageType::PutS, kOne) == DirEvent::PutS_Stale);
  DirectoryEntry owned;
  owned.set_owner(kTwo, kHome);
  CHECK(classified(owned, MessageType::PutM, kTwo) == DirEvent::PutM_Owner);
  CHECK(classified(owned, MessageType::PutM, kOne) == DirEvent::PutM_Stale);
  CHECK(classified(owned, MessageType::PutS, kOne) == DirEvent::PutS_Stale);
  owned.state = DirState::BusyFetchM;  // the owner evicts while it is being asked
  CHECK(classified(owned, MessageType::PutM, kTwo) == DirEvent::PutM_Stale);
}

TEST_CASE("directory: the last InvAck is the one after which nobody owes one") {
  DirectoryEntry entry = shared_by(0b110);
  entry.state = DirState::BusyInvM;
  CHECK(classified(entry, MessageType::InvAck, kOne) == DirEvent::InvAck_Some);
  entry.sharers = 0b100;
  CHECK(classified(entry, MessageType::InvAck, kTwo) == DirEvent::InvAck_Last);
}

TEST_CASE("hold: a fault elsewhere gives up everything, so that a scan delays nobody") {
  ThreadHold hold;
  CHECK(on_wake(hold, 7, false));
  CHECK_FALSE(on_wake(hold, 7, true));  // held already
  const FaultNote note = on_fault(hold, 9, false);
  CHECK_FALSE(note.wasted);
  REQUIRE(note.released.count == 1);
  CHECK(note.released.blocks[0] == 7);
  CHECK(hold.held_count == 0);
}

TEST_CASE("hold: a thread that faults again on what it was granted keeps what lies below, not that block or what is above") {
  ThreadHold hold;
  on_wake(hold, 5, true);
  on_fault(hold, 6, true);
  on_wake(hold, 6, true);
  CHECK(on_fault(hold, 5, true).wasted);  // 5 has gone meanwhile: two blocks are needed at once
  CHECK(hold.held_count == 0);            // 6 is above
  on_wake(hold, 5, true);
  on_fault(hold, 6, true);
  CHECK(holds_exactly(hold, {5}));
  on_wake(hold, 6, true);
  CHECK(holds_exactly(hold, {5, 6}));
  on_fault(hold, 6, true);
  CHECK(holds_exactly(hold, {5}));
}

TEST_CASE("hold: at most three blocks are kept while waiting, the lowest goes first") {
  ThreadHold hold;
  on_wake(hold, 9, false);
  on_fault(hold, 9, false);
  REQUIRE(hold.several);
  for (const uint64_t block : {1, 2, 3, 4}) {
    on_fault(hold, block, false);
    on_wake(hold, block, false);
  }
  REQUIRE(holds_exactly(hold, {1, 2, 3, 4}));
  const FaultNote note = on_fault(hold, 5, false);
  REQUIRE(note.released.count == 1);
  CHECK(note.released.blocks[0] == 1);
  CHECK(holds_exactly(hold, {2, 3, 4}));
}

TEST_CASE("hold: the timer empties the set and forgets what was granted") {
  ThreadHold hold;
  on_wake(hold, 5, true);
  on_wake(hold, 6, true);
  CHECK(on_timer(hold).count == 2);
  CHECK(hold.held_count == 0);
  CHECK_FALSE(on_fault(hold, 6, true).wasted);
}

TEST_CASE("hold: it grows while the thread faults again on what it just had, up to a limit, and shrinks when it faults elsewhere") {
  ThreadHold hold;
  on_wake(hold, 5, true);
  for (int round = 1; round <= 20; round++) {
    on_fault(hold, 5, true);
    CHECK(hold.backoff == std::min<int>(round, ThreadHold::kMaxBackoff));
    on_wake(hold, 5, true);
  }
  on_timer(hold);
  on_fault(hold, 6, false);
  CHECK(hold.backoff == 0);
}

TEST_CASE("immutable: one question a copy, bytes only when asked for, eviction without a word") {
  using E = ImmutableEvent;
  using A = ImmutableAction;
  CHECK(step_immutable(AgentState::I, E::Read).action == A::WaitAndAsk);
  CHECK(step_immutable(AgentState::I, E::Read).next == AgentState::IS);
  CHECK(step_immutable(AgentState::IS, E::Read).action == A::Wait);
  CHECK(step_immutable(AgentState::IS, E::Data).action == A::Install);
  CHECK(step_immutable(AgentState::S, E::Read).action == A::Map);
  CHECK(step_immutable(AgentState::S, E::Evict).next == AgentState::I);
  for (const AgentState state : {AgentState::I, AgentState::S}) CHECK(step_immutable(state, E::Data).action == A::Refuse);
  for (const AgentState state : {AgentState::I, AgentState::IS}) CHECK(step_immutable(state, E::Evict).action == A::Refuse);
}

}  // namespace farpage::coherence
