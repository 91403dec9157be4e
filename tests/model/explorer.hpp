// Every interleaving of a small world: breadth first over packed states, invariants in each, deadlock where somebody waits and
// nothing can move, and progress: no cycle of steps in which no access completes (evictions among them). Where accesses are
// bounded such a cycle is a thread that waits for ever; where they never end, fair cycles in which one thread waits are looked for.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/model/fair_cycle.hpp"
#include "tests/model/world.hpp"

namespace farpage::model {

struct Search {
  uint64_t states = 0, transitions = 0;
  bool complete = false;
  std::string wrong;  // empty: nothing found
  uint32_t depth = 0; // of the finding
};

struct SearchOptions {
  uint8_t accesses = 3;     // a thread
  bool endless = false;     // as many accesses as it likes; look for fair cycles in which a begun one does not complete
  uint8_t values = 2;
  bool evictions = true;
  bool progress = false;    // look for cycles
  bool hasty_timers = false;
  uint64_t most_states = 30'000'000;
};

template <int kAgents, int kBlocks, int kThreads>
class Explorer {
 public:
  using W = World<kAgents, kBlocks, kThreads>;

  Explorer(std::vector<ThreadPlan> plans, SearchOptions options) : plans_(std::move(plans)), options_(options) {}

  Search run() {
    Search result;
    add(start(), 0);
    for (uint32_t i = 0; i < offsets_.size() && result.wrong.empty(); i++) {
      const W world = unpack(i);
      uint32_t moves = 0;
      graph_.begin.push_back(static_cast<uint32_t>(graph_.to.size()));
      const auto attempt = [&](auto&& change, int kind) {
        if (!result.wrong.empty()) return;
        W next = world;
        try {
          change(next);
          next.check();
        } catch (const Wrong& wrong) {
          result.wrong = wrong.what();
          result.depth = depth_of(i);
          return;
        }
        result.transitions++;
        if (kind != kWhim) moves++;
        const uint32_t to = add(next, i);
        if (options_.progress || options_.endless) graph_.to.push_back(to);
        if (options_.endless) graph_.kind.push_back(static_cast<uint8_t>(kind));
      };
      for (int t = 0; t < world.threads(); t++) {
        const auto index = static_cast<size_t>(t);
        if (world.thread[index] == ThreadState::Idle && world.left[index] != 0)
          for (size_t k = 0; k < plans_[index].instructions.size(); k++) attempt([&](W& w) { begin(w, t, k); }, kWhim);
        if (world.thread[index] == ThreadState::Ready) attempt([&](W& w) { w.run(t); }, t);
        if (world.thread[index] == ThreadState::Faulted) attempt([&](W& w) { w.take_fault(t); }, kThreads + t);
        if (world.timer_may_fire(t)) attempt([&](W& w) { w.fire_timer(t); }, 2 * kThreads + t);
      }
      for (size_t k = 0; k < world.packets.size(); k++) {
        if (k != 0 && world.packets[k].key() == world.packets[k - 1].key()) continue;
        attempt([&](W& w) { w.deliver(k); }, kind_of(world.packets[k]));
      }
      if (options_.evictions)
        for (int a = 0; a < kAgents; a++)
          for (int b = 0; b < kBlocks; b++) {
            W probe = world;
            if (probe.may_evict(a, b)) attempt([&](W& w) { w.evict(a, b); }, kWhim);
          }
      if (result.wrong.empty() && moves == 0 && world.unfinished()) {
        result.wrong = "deadlock: somebody waits and nothing can move";
        result.depth = depth_of(i);
      }
      if (offsets_.size() > options_.most_states) break;
    }
    result.states = offsets_.size();
    result.complete = result.wrong.empty() && offsets_.size() <= options_.most_states;
    graph_.begin.push_back(static_cast<uint32_t>(graph_.to.size()));
    if (result.complete && options_.endless && somebody_waits_for_ever()) result.wrong = "a thread may wait for ever, fairly";
    if (result.complete && options_.progress && has_cycle()) result.wrong = "livelock: steps that repeat and complete no access";
    return result;
  }

 private:
  W start() const {
    W w(plans_, options_.accesses, options_.values);
    w.hasty_timers = options_.hasty_timers;
    return w;
  }

  void begin(W& w, int t, size_t which) const {
    w.begin(t, which);
    if (options_.endless) w.left[static_cast<size_t>(t)]++;
  }

  // Messages of a class between one agent and one home arrive sooner or later, whatever else arrives.
  static int kind_of(const Packet& packet) {
    int group = 4;
    switch (packet.type) {
      case MessageType::GetS:
      case MessageType::GetM:
      case MessageType::Upgrade:
      case MessageType::PutS:
      case MessageType::PutM: group = 0; break;
      case MessageType::InvAck:
      case MessageType::BlockBack: group = 1; break;
      case MessageType::DataS:
      case MessageType::DataM:
      case MessageType::UpgAck: group = 2; break;
      case MessageType::PutAck: group = 3; break;
      default: break;
    }
    static_assert(3 * kThreads + 5 * kAgents * kBlocks <= kWhim);
    return 3 * kThreads + (group * kAgents + packet.agent) * kBlocks + packet.block;
  }

  bool somebody_waits_for_ever() const {
    for (size_t t = 0; t < plans_.size(); t++) {
      std::vector<bool> begun(offsets_.size());
      for (uint32_t i = 0; i < offsets_.size(); i++) begun[i] = unpack(i).thread[t] != ThreadState::Idle;
      if (has_fair_cycle(graph_, begun)) return true;
    }
    return false;
  }

  // A state in few bytes. What only steers time (backoff, the newest grant) is left out: it changes no decision.
  std::string pack(W& w) const {
    std::string out;
    const auto put = [&](uint64_t value) { out += static_cast<char>(value); };
    for (size_t b = 0; b < kBlocks; b++) {
      const DirectoryEntry& d = w.directory[b];
      put(static_cast<uint64_t>(d.state) | uint64_t{d.owner_code} << 4);
      put(d.sharers);
      put((is_busy(d.state) ? d.requester : 0u) | uint64_t{w.memory[b]} << 3 | uint64_t{w.newest[b]} << 5);
      put(w.deferred[b].size());
      for (const Message& m : w.deferred[b]) put(static_cast<uint64_t>(m.type) | uint64_t{m.from.value} << 4);
      for (size_t a = 0; a < kAgents; a++) {
        const AgentEntry& e = w.agents[a][b];
        const bool has_bytes = readable(e.state) || e.state == AgentState::EV;
        put(static_cast<uint64_t>(e.state) | uint64_t{static_cast<uint8_t>(e.deferred)} << 4 | uint64_t{has_bytes ? w.data[a][b] : uint8_t{0}} << 6);
      }
    }
    for (size_t t = 0; t < plans_.size(); t++) {
      const ThreadHold& h = w.holds[t];
      uint64_t held = 0, granted = 0, pages = 0;
      for (uint32_t i = 0; i < h.held_count; i++) held |= uint64_t{1} << h.held[i];
      for (uint32_t i = 0; i < h.grant_count; i++) granted |= uint64_t{1} << (h.since_timer[i].block * 2 + h.since_timer[i].write);
      for (size_t b = 0; b < kBlocks; b++) pages |= uint64_t{w.mapped[t][b]} << 2 * b;
      put(held | uint64_t{h.several} << 4 | uint64_t{w.timer[t]} << 5 | uint64_t{w.woken[t]} << 6);
      put(granted);
      put(pages);
      put(static_cast<uint64_t>(w.thread[t]) | uint64_t{w.instruction[t]} << 2 | uint64_t{w.element[t]} << 6);
      put(w.left[t]);
    }
    std::sort(w.packets.begin(), w.packets.end(), [](const Packet& x, const Packet& y) { return x.key() < y.key(); });
    for (const Packet& p : w.packets) {
      put(static_cast<uint64_t>(p.type) | uint64_t{p.keeps_copy} << 4 | uint64_t{p.data} << 5);
      put(p.agent | uint64_t{p.block} << 4);
    }
    return out;
  }

  W unpack(uint32_t index) const {
    W w = start();
    const auto* at = reinterpret_cast<const uint8_t*>(pool_.data() + offsets_[index]);
    const auto* end = reinterpret_cast<const uint8_t*>(index + 1 < offsets_.size() ? pool_.data() + offsets_[index + 1] : pool_.data() + pool_.size());
    for (size_t b = 0; b < kBlocks; b++) {
      DirectoryEntry& d = w.directory[b];
      d.state = static_cast<DirState>(*at & 15);
      d.owner_code = *at++ >> 4;
      d.sharers = *at++;
      d.requester = *at & 7;
      w.memory[b] = *at >> 3 & 3;
      w.newest[b] = *at++ >> 5 & 3;
      d.deferred = *at++;
      for (uint16_t i = 0; i < d.deferred; i++, at++)
        w.deferred[b].push_back({static_cast<MessageType>(*at & 15), AgentId{static_cast<uint16_t>(*at >> 4)}, b, false});
      for (size_t a = 0; a < kAgents; a++, at++) {
        w.agents[a][b].state = static_cast<AgentState>(*at & 15);
        w.agents[a][b].deferred = static_cast<Recall>(*at >> 4 & 3);
        w.data[a][b] = *at >> 6;
      }
    }
    for (size_t t = 0; t < plans_.size(); t++) {
      ThreadHold& h = w.holds[t];
      for (size_t b = 0; b < kBlocks; b++) {
        if ((*at >> b & 1) == 0) continue;
        h.held[h.held_count++] = b;
        w.agents[w.agent_of(static_cast<int>(t))][b].holders++;
      }
      h.several = *at >> 4 & 1;
      w.timer[t] = *at >> 5 & 1;
      w.woken[t] = *at++ >> 6 & 1;
      for (uint32_t access = 0; access < 2 * kBlocks; access++)
        if (*at >> access & 1) h.since_timer[h.grant_count++] = {access / 2, access % 2 != 0};
      at++;
      for (size_t b = 0; b < kBlocks; b++) w.mapped[t][b] = *at >> 2 * b & 3;
      at++;
      w.thread[t] = static_cast<ThreadState>(*at & 3);
      w.instruction[t] = *at >> 2 & 15;
      w.element[t] = *at++ >> 6;
      w.left[t] = *at++;
    }
    for (; at < end; at += 2)
      w.packets.push_back({static_cast<MessageType>(at[0] & 15), static_cast<uint8_t>(at[1] & 15), static_cast<uint8_t>(at[1] >> 4),
                           static_cast<uint8_t>(at[0] >> 5), (at[0] >> 4 & 1) != 0});
    return w;
  }

  // The index of a state; new ones join the queue.
  uint32_t add(W world, uint32_t parent) {
    const std::string packed = pack(world);
    if (table_.size() < 2 * (offsets_.size() + 1)) grow();
    size_t place = std::hash<std::string_view>()(packed) & (table_.size() - 1);
    for (; table_[place] != kEmpty; place = (place + 1) & (table_.size() - 1))
      if (text_of(table_[place]) == packed) return table_[place];
    const auto index = static_cast<uint32_t>(offsets_.size());
    table_[place] = index;
    offsets_.push_back(pool_.size());
    pool_ += packed;
    parents_.push_back(parent);
    return index;
  }

  std::string_view text_of(uint32_t index) const {
    const uint64_t end = index + 1 < offsets_.size() ? offsets_[index + 1] : pool_.size();
    return std::string_view(pool_).substr(offsets_[index], end - offsets_[index]);
  }

  void grow() {
    std::vector<uint32_t> larger(std::max<size_t>(1 << 16, table_.size() * 2), kEmpty);
    for (uint32_t i = 0; i < offsets_.size(); i++) {
      size_t place = std::hash<std::string_view>()(text_of(i)) & (larger.size() - 1);
      while (larger[place] != kEmpty) place = (place + 1) & (larger.size() - 1);
      larger[place] = i;
    }
    table_.swap(larger);
  }

  uint32_t depth_of(uint32_t index) const {
    uint32_t depth = 0;
    for (; index != 0; index = parents_[index]) depth++;
    return depth;
  }

  // States whose successors all lead out are peeled off; what is left is cycles.
  bool has_cycle() {
    std::vector<uint32_t> incoming(offsets_.size());
    for (const uint32_t to : graph_.to) incoming[to]++;
    std::vector<uint32_t> ready;
    for (uint32_t i = 0; i < offsets_.size(); i++)
      if (incoming[i] == 0) ready.push_back(i);
    uint64_t peeled = 0;
    while (!ready.empty()) {
      const uint32_t i = ready.back();
      ready.pop_back();
      peeled++;
      for (uint32_t e = graph_.begin[i]; e < graph_.begin[i + 1]; e++)
        if (--incoming[graph_.to[e]] == 0) ready.push_back(graph_.to[e]);
    }
    return peeled != offsets_.size();
  }

  static constexpr uint32_t kEmpty = 0xffff'ffff;
  std::vector<ThreadPlan> plans_;
  SearchOptions options_;
  std::string pool_;
  std::vector<uint64_t> offsets_;
  std::vector<uint32_t> parents_, table_;
  Graph graph_;
};

}  // namespace farpage::model
