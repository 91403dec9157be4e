#include "tests/sim/simulation.hpp"

#include "tests/model/world.hpp"

namespace farpage::sim {
namespace {

using namespace model;

constexpr int kWords = 4;
using Words = std::array<uint32_t, kWords>;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull) {}
  uint64_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1dull >> 11;
  }
  uint64_t below(uint64_t n) { return next() % n; }

 private:
  uint64_t state_;
};

template <int kAgents, int kBlocks, int kThreads>
class Simulation {
  using W = World<kAgents, kBlocks, kThreads, Words>;

 public:
  explicit Simulation(const Settings& settings) : settings_(settings), random_(settings.seed), plans_(make_plans()), world_(plans_, 0, 0) {}

  Outcome run() {
    Outcome outcome;
    uint64_t digest = 0xcbf29ce484222325ull, idle_steps = 0;
    try {
      while (outcome.accesses < settings_.accesses) {
        const uint64_t before = outcome.accesses;
        step(outcome, digest);
        idle_steps = outcome.accesses == before ? idle_steps + 1 : 0;
        if (idle_steps > 200'000) throw Wrong("nobody completes an access any more");
        if (++steps_ % 4096 == 0) look_for_the_forgotten();
        if (!outcome.wrong.empty()) break;
      }
    } catch (const Wrong& wrong) {
      outcome.wrong = wrong.what();
    }
    outcome.digest = digest;
    return outcome;
  }

 private:
  static std::vector<ThreadPlan> make_plans() {
    std::vector<ThreadPlan> plans;
    for (int t = 0; t < kThreads; t++) plans.push_back({static_cast<uint8_t>(t % kAgents), {{}}});
    return plans;
  }

  void step(Outcome& outcome, uint64_t& digest) {
    // Mostly messages, so that transactions end; which one is anybody's guess.
    if (!world_.packets.empty() && random_.below(8) < 5) return deliver_one(outcome);
    if (random_.below(40) == 0) {
      const int a = static_cast<int>(random_.below(kAgents)), b = static_cast<int>(random_.below(kBlocks));
      if (world_.may_evict(a, b)) {
        outcome.evictions++;
        world_.evict(a, b);
      }
      return;
    }
    const int t = static_cast<int>(random_.below(kThreads));
    const auto index = static_cast<size_t>(t);
    switch (world_.thread[index]) {
      case ThreadState::Idle:
        if (world_.timer_may_fire(t) && random_.below(2) == 0) return world_.fire_timer(t);
        return begin(t);
      case ThreadState::Ready: return complete(t, outcome, digest);
      case ThreadState::Faulted: return world_.take_fault(t);
      case ThreadState::Waiting: return;
    }
  }

  // Any message may be next. Every other while evictions stay on their way, so that others make several transactions meanwhile.
  void deliver_one(Outcome& outcome) {
    const uint64_t next = random_.below(world_.packets.size());
    const MessageType type = world_.packets[next].type;
    const bool eviction = type == MessageType::PutS || type == MessageType::PutM;
    if (eviction && steps_ / 4096 % 2 != 0 && random_.below(64) != 0) return;
    outcome.messages++;
    world_.deliver(next);
  }

  // A thread that waits while millions of other steps are taken waits for ever.
  void look_for_the_forgotten() {
    for (size_t t = 0; t < kThreads; t++) {
      if (world_.thread[t] != ThreadState::Waiting) waiting_since_[t] = steps_;
      if (steps_ - waiting_since_[t] > 100'000ull * kThreads) throw Wrong("thread " + std::to_string(t) + " waits for ever");
    }
  }

  // A new instruction: one access, or two of different blocks in any order; blocks near each other are liked best.
  void begin(int t) {
    Instruction& code = plans_[static_cast<size_t>(t)].instructions[0];
    code.clear();
    const auto block = static_cast<uint8_t>(random_.below(4) == 0 ? random_.below(kBlocks) : random_.below(std::min(kBlocks, 3)));
    code.push_back({block, random_.below(3) == 0});
    if (random_.below(6) == 0) code.push_back({static_cast<uint8_t>((block + 1 + random_.below(kBlocks - 1)) % kBlocks), random_.below(2) == 0});
    world_.left[static_cast<size_t>(t)] = 1;
    world_.begin(t, 0);
  }

  void complete(int t, Outcome& outcome, uint64_t& digest) {
    const auto index = static_cast<size_t>(t);
    world_.woken[index] = false;
    const int missing = world_.first_unmapped(t);
    if (missing >= 0) {
      world_.thread[index] = ThreadState::Faulted;
      world_.element[index] = static_cast<uint8_t>(missing);
      return;
    }
    for (const Step& step : world_.instruction_of(t)) {
      Words& words = world_.data[world_.agent_of(t)][step.block];
      Access access{static_cast<uint32_t>(t), step.block, static_cast<uint8_t>(random_.below(kWords)), step.write, 0};
      if (step.write)
        access.value = words[access.word] = ++written_;
      else
        access.value = words[access.word];
      outcome.accesses++;
      for (const uint64_t part : {uint64_t{access.thread}, uint64_t{access.block} << 8 | access.word, uint64_t{access.value}})
        digest = (digest ^ part) * 0x100000001b3ull;
      if (outcome.wrong.empty()) outcome.wrong = checker_.add(access);
    }
    world_.thread[index] = ThreadState::Idle;
    world_.instruction[index] = world_.element[index] = 0;
  }

  Settings settings_;
  Random random_;
  std::vector<ThreadPlan> plans_;
  W world_;
  Checker checker_;
  uint32_t written_ = 0;
  uint64_t steps_ = 0;
  std::array<uint64_t, kThreads> waiting_since_{};
};

}  // namespace

std::string Checker::add(const Access& access) {
  uint32_t& word = words_[size_t{access.block} * kWords + access.word];
  const uint64_t number = count_++;
  if (access.write) {
    word = access.value;
    return {};
  }
  if (word == access.value) return {};
  return "access " + std::to_string(number) + ": thread " + std::to_string(access.thread) + " read " + std::to_string(access.value) + " from block " +
         std::to_string(access.block) + ", word " + std::to_string(access.word) + ": the last write there was " + std::to_string(word);
}

Outcome simulate(const Settings& settings) {
  switch (settings.agents) {
    case 2: return Simulation<2, 4, 4>(settings).run();
    case 4: return Simulation<4, 8, 8>(settings).run();
    case 16: return Simulation<16, 8, 24>(settings).run();
    case 64: return Simulation<64, 16, 80>(settings).run();
    default: break;
  }
  Outcome outcome;
  outcome.wrong = "agents: 2, 4, 16 or 64";
  return outcome;
}

}  // namespace farpage::sim
