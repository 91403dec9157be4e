// A world of agents, blocks and threads around the production drivers: what explorer and simulator share. The network is a bag
// (any message may arrive next), every agent's page tables are explicit, and what is wrong shows as a Wrong exception: the
// checks see page tables and bytes, never the protocol's intentions.
//
// Threads run instructions: lists of accesses (block, read or write) that must all be mapped at one moment to complete. A thread
// that finds one unmapped faults on it and sleeps until its agent wakes it. The agent knows (thread, block, kind), no more.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/coherence/agent_driver.hpp"
#include "runtime/coherence/home_driver.hpp"

namespace farpage::model {

using namespace coherence;

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Step {
  uint8_t block;
  bool write;
};
using Instruction = std::vector<Step>;

struct ThreadPlan {
  uint8_t agent;
  std::vector<Instruction> instructions;  // the thread may begin any of them, at any time
};

enum class ThreadState : uint8_t { Idle, Ready, Faulted, Waiting };

template <class Bytes>
struct PacketOf {
  MessageType type;
  uint8_t agent;  // the sender of a message to a home, else the receiver
  uint8_t block;
  Bytes data;
  bool keeps_copy;
  auto key() const {
    return static_cast<uint32_t>(type) << 24 | uint32_t{agent} << 17 | uint32_t{block} << 9 | uint32_t{data} << 1 | uint32_t{keeps_copy};
  }
};
using Packet = PacketOf<uint8_t>;

// `Bytes`: what a block holds. The explorer counts versions in a byte; the simulator has words.
template <int kAgents, int kBlocks, int kThreads, class Bytes = uint8_t>
struct World {
  using Packet = PacketOf<Bytes>;
  static constexpr int kPackets = kAgents * kBlocks * 3 + 8;

  const std::vector<ThreadPlan>* plans = nullptr;
  uint8_t values = 2;  // data are counted modulo this
  bool hasty_timers = false;  // timers may fire before the woken thread has run: safe, but nothing then makes progress sure

  std::array<std::array<AgentEntry, kBlocks>, kAgents> agents{};
  std::array<std::array<Bytes, kBlocks>, kAgents> data{};
  std::array<DirectoryEntry, kBlocks> directory{};
  std::array<Bytes, kBlocks> memory{}, newest{};
  std::array<std::vector<Message>, kBlocks> deferred{};
  std::array<ThreadHold, kThreads> holds{};
  std::array<std::array<uint8_t, kBlocks>, kThreads> mapped{};  // 0 absent, 1 read, 2 write: each thread in a rank of its own
  std::array<ThreadState, kThreads> thread{};
  std::array<uint8_t, kThreads> instruction{}, element{}, left{};
  std::array<bool, kThreads> timer{}, woken{};
  std::vector<Packet> packets;

  static uint8_t home_of(int block) { return static_cast<uint8_t>(block % kAgents); }

  World(const std::vector<ThreadPlan>& thread_plans, uint8_t accesses, uint8_t value_count) : plans(&thread_plans), values(value_count) {
    for (int b = 0; b < kBlocks; b++) agents[home_of(b)][static_cast<size_t>(b)].state = AgentState::M;
    left.fill(accesses);
  }

  int threads() const { return static_cast<int>(plans->size()); }
  uint8_t agent_of(int t) const { return (*plans)[static_cast<size_t>(t)].agent; }
  const Instruction& instruction_of(int t) const { return (*plans)[static_cast<size_t>(t)].instructions[instruction[static_cast<size_t>(t)]]; }
  const Step& wanted(int t) const { return instruction_of(t)[element[static_cast<size_t>(t)]]; }

  void post(const Packet& packet) {
    if (packets.size() >= kPackets) throw Wrong("more messages under way than the protocol allows");
    packets.push_back(packet);
  }

  // --- the agent's environment -----------------------------------------------------------------------------------------
  struct AgentEnv {
    using Block = uint64_t;
    using Thread = int;
    World& w;
    uint8_t a;
    Bytes arrived{};  // data of the message being handled

    AgentEntry& entry(Block b) { return w.agents[a][b]; }
    ThreadHold& hold(Thread t) { return w.holds[static_cast<size_t>(t)]; }
    void wait(Thread t, Block, bool) { w.thread[static_cast<size_t>(t)] = ThreadState::Waiting; }
    bool first_waiter(Block b, bool write, Thread& found) {
      for (int t = 0; t < w.threads(); t++) {
        if (w.agent_of(t) != a || w.thread[static_cast<size_t>(t)] != ThreadState::Waiting) continue;
        if (w.wanted(t).block != b || w.wanted(t).write != write) continue;
        found = t;
        return true;
      }
      return false;
    }
    void end_wait(Thread t) { w.thread[static_cast<size_t>(t)] = ThreadState::Ready; }
    void map(Thread t, Block b, bool write) {
      uint8_t& page = w.mapped[static_cast<size_t>(t)][b];
      page = std::max<uint8_t>(page, write ? 2 : 1);
      w.thread[static_cast<size_t>(t)] = ThreadState::Ready;
      w.woken[static_cast<size_t>(t)] = true;
    }
    void limit(Block b, uint8_t most) {
      for (int t = 0; t < w.threads(); t++)
        if (w.agent_of(t) == a) w.mapped[static_cast<size_t>(t)][b] = std::min(w.mapped[static_cast<size_t>(t)][b], most);
    }
    void install(Block b, bool) { w.data[a][b] = arrived; }
    void downgrade(Block b) { limit(b, 1); }
    void withdraw(Block b, bool keep) {
      limit(b, 0);
      if (!keep || planted(Mistake::OwnerForgetsEvictedBytes)) w.data[a][b] = Bytes{};
    }
    void drop_kept(Block b) { w.data[a][b] = Bytes{}; }
    void take_frame(Block) {}
    void release_frame(Block) {}
    void send(MessageType type, Block b, bool keeps_copy) {
      const bool bytes = carries_block(type);
      w.post({type, a, static_cast<uint8_t>(b), bytes ? w.data[a][b] : Bytes{}, keeps_copy});
    }
    void start_timer(Thread t, uint8_t) { w.timer[static_cast<size_t>(t)] = true; }
    void stop_timer(Thread t) { w.timer[static_cast<size_t>(t)] = false; }
    void note_wasted(Thread) {}
    void note_deferred(Block) {}
    void note_undeferred(Block) {}
  };

  // --- the home's environment ------------------------------------------------------------------------------------------
  struct HomeEnv {
    using Block = uint64_t;
    World& w;
    uint8_t h;
    Bytes arrived{};

    DirectoryEntry& entry(Block b) { return w.directory[b]; }
    AgentId home() const { return AgentId{h}; }
    void send(AgentId to, MessageType type, Block b) {
      w.post({type, static_cast<uint8_t>(to.value), static_cast<uint8_t>(b), carries_block(type) ? w.memory[b] : Bytes{}, false});
    }
    void store(Block b) { w.memory[b] = arrived; }
    void defer(const Message& message) { w.deferred[message.block].push_back(message); }
    bool take_deferred(Block b, Message& out) {
      if (w.deferred[b].empty()) return false;
      out = w.deferred[b].front();
      w.deferred[b].erase(w.deferred[b].begin());
      return true;
    }
  };

  // --- what can happen -------------------------------------------------------------------------------------------------
  void deliver(size_t index) {
    const Packet packet = packets[index];
    packets.erase(packets.begin() + static_cast<long>(index));
    const Message message{packet.type, AgentId{packet.agent}, packet.block, packet.keeps_copy};
    if (to_home(packet.type)) {
      HomeEnv env{*this, home_of(packet.block), packet.data};
      HomeDriver(env).on_message(message);
    } else {
      AgentEnv env{*this, packet.agent, packet.data};
      AgentDriver(env).on_message(message);
    }
  }

  void begin(int t, size_t which) {
    thread[static_cast<size_t>(t)] = ThreadState::Ready;
    instruction[static_cast<size_t>(t)] = static_cast<uint8_t>(which);
    element[static_cast<size_t>(t)] = 0;
    left[static_cast<size_t>(t)]--;
  }

  int first_unmapped(int t) const {
    const Instruction& code = instruction_of(t);
    for (size_t i = 0; i < code.size(); i++)
      if (mapped[static_cast<size_t>(t)][code[i].block] < (code[i].write ? 2 : 1)) return static_cast<int>(i);
    return -1;
  }

  /// The thread runs: completes, or faults. Returns true when it has completed.
  bool run(int t) {
    const auto index = static_cast<size_t>(t);
    woken[index] = false;
    const int missing = first_unmapped(t);
    if (missing >= 0) {
      thread[index] = ThreadState::Faulted;
      element[index] = static_cast<uint8_t>(missing);
      return false;
    }
    for (const Step& step : instruction_of(t)) {
      uint8_t& bytes = data[agent_of(t)][step.block];
      if (bytes != newest[step.block]) throw Wrong("an access meets old bytes");
      if (step.write) bytes = newest[step.block] = static_cast<uint8_t>((newest[step.block] + 1) % values);
    }
    thread[index] = ThreadState::Idle;
    instruction[index] = element[index] = 0;
    return true;
  }

  void take_fault(int t) {
    AgentEnv env{*this, agent_of(t)};
    const Step step = wanted(t);
    AgentDriver(env).on_fault(t, step.block, step.write);
  }

  bool timer_may_fire(int t) const {
    const auto index = static_cast<size_t>(t);
    return timer[index] && (hasty_timers || !woken[index]) && thread[index] != ThreadState::Faulted && thread[index] != ThreadState::Waiting;
  }
  void fire_timer(int t) {
    timer[static_cast<size_t>(t)] = false;
    AgentEnv env{*this, agent_of(t)};
    AgentDriver(env).on_timer(t);
  }

  bool may_evict(int a, int b) {
    if (a == home_of(b)) return false;
    AgentEnv env{*this, static_cast<uint8_t>(a)};
    return AgentDriver(env).can_evict(static_cast<uint64_t>(b));
  }
  void evict(int a, int b) {
    AgentEnv env{*this, static_cast<uint8_t>(a)};
    AgentDriver(env).evict(static_cast<uint64_t>(b));
  }

  // --- what must hold --------------------------------------------------------------------------------------------------
  void check() const {
    for (size_t b = 0; b < kBlocks; b++) {
      int writers = 0, readers = 0;
      for (size_t a = 0; a < kAgents; a++) {
        const AgentState state = agents[a][b].state;
        writers += state == AgentState::M;
        readers += readable(state) && state != AgentState::M;
        if (readable(state) && data[a][b] != newest[b]) throw Wrong("a readable copy is not the newest");
        const bool known = directory[b].state == DirState::Owned ? directory[b].owner(AgentId{home_of(static_cast<int>(b))}).value == a
                                                                 : directory[b].shares(AgentId{static_cast<uint16_t>(a)});
        if (readable(state) && !is_busy(directory[b].state) && !known) throw Wrong("a copy that the directory does not know");
        for (int t = 0; t < threads(); t++) {
          if (agent_of(t) != a) continue;
          const uint8_t page = mapped[static_cast<size_t>(t)][b];
          if ((page != 0 && !readable(state)) || (page == 2 && state != AgentState::M)) throw Wrong("a page table allows more than the copy");
        }
      }
      if (writers > 1 || (writers == 1 && readers != 0)) throw Wrong("a writer beside another copy");
      if ((directory[b].state == DirState::Uncached || directory[b].state == DirState::Shared) && memory[b] != newest[b])
        throw Wrong("home memory is old");
    }
  }

  /// Somebody waits, or something is under way.
  bool unfinished() const {
    if (!packets.empty()) return true;
    for (int t = 0; t < threads(); t++)
      if (thread[static_cast<size_t>(t)] != ThreadState::Idle) return true;
    for (const DirectoryEntry& entry : directory)
      if (is_busy(entry.state)) return true;
    return false;
  }
};

}  // namespace farpage::model
