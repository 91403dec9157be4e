// Every interleaving of the production drivers in small worlds finds nothing wrong, and each planted mistake is found.
#include "tests/model/explorer.hpp"

#include <doctest/doctest.h>

#include <cstdio>

namespace farpage::model {
namespace {

constexpr Step R0{0, false}, W0{0, true}, R1{1, false}, W1{1, true};

std::vector<ThreadPlan> readers_and_writers(int agents) {
  std::vector<ThreadPlan> plans;
  for (int a = 0; a < agents; a++) plans.push_back({static_cast<uint8_t>(a), {{R0}, {W0}}});
  return plans;
}

template <int kAgents, int kBlocks, int kThreads>
Search explore(const char* name, std::vector<ThreadPlan> plans, SearchOptions options) {
  const Search search = Explorer<kAgents, kBlocks, kThreads>(std::move(plans), options).run();
  std::printf("%-58s %9llu states %10llu transitions%s%s\n", name, static_cast<unsigned long long>(search.states),
              static_cast<unsigned long long>(search.transitions), search.wrong.empty() ? "" : "  ", search.wrong.c_str());
  std::fflush(stdout);
  return search;
}

}  // namespace

TEST_CASE("explorer: 3 agents and 1 block, reads, writes and evictions at any time") {
  const Search search = explore<3, 1, 3>("3 x 1, 2 accesses, evictions", readers_and_writers(3), {.accesses = 2, .values = 3});
  CHECK(search.wrong == "");
  CHECK(search.complete);
  CHECK(search.states > 100'000);
}

TEST_CASE("explorer: 3 agents and 1 block always make progress") {
  const Search search = explore<3, 1, 3>("3 x 1, 2 accesses, progress", readers_and_writers(3), {.accesses = 2, .values = 2, .evictions = false, .progress = true});
  CHECK(search.wrong == "");
  CHECK(search.complete);
}

TEST_CASE("explorer: 2 agents and 2 blocks with accesses over both, in both orders, make progress") {
  const std::vector<ThreadPlan> plans = {{0, {{W0, W1}, {R1, W0}, {R0}}}, {1, {{W1, W0}, {R0, R1}, {W1}}}};
  const Search search = explore<2, 2, 2>("2 x 2, straddling, 3 accesses, progress", plans, {.accesses = 3, .values = 2, .evictions = false, .progress = true});
  CHECK(search.wrong == "");
  CHECK(search.complete);
}

TEST_CASE("explorer: 2 agents and 2 blocks with accesses over both make progress with evictions at any time") {
  const std::vector<ThreadPlan> plans = {{0, {{W0, W1}, {R1, R0}}}, {1, {{W1, W0}, {R0, W1}}}};
  const Search search = explore<2, 2, 2>("2 x 2, straddling, 2 accesses, evictions, progress", plans, {.accesses = 2, .values = 2, .progress = true});
  CHECK(search.wrong == "");
  CHECK(search.complete);
}

TEST_CASE("explorer: holds that end before the woken thread has run are safe") {
  const Search one = explore<3, 1, 3>("3 x 1, 1 access, evictions, hasty timers", readers_and_writers(3), {.accesses = 1, .values = 3, .hasty_timers = true});
  CHECK(one.wrong == "");
  CHECK(one.complete);
  const std::vector<ThreadPlan> plans = {{0, {{W0, W1}, {R1, R0}}}, {1, {{W1, W0}, {R0, W1}}}};
  const Search two = explore<2, 2, 2>("2 x 2, straddling, 2 accesses, evictions, hasty timers", plans, {.accesses = 2, .values = 2, .hasty_timers = true});
  CHECK(two.wrong == "");
  CHECK(two.complete);
}

TEST_CASE("explorer: every access that was begun completes, though the others never stop, and without hold it may not") {
  const std::vector<ThreadPlan> both = {{0, {{W0, W1}, {R1, W0}, {R0}}}, {1, {{W1, W0}, {R0, R1}, {W1}}}};
  const SearchOptions endless{.accesses = 1, .endless = true, .values = 1, .evictions = false};
  const SearchOptions evicting{.accesses = 1, .endless = true, .values = 1, .evictions = true};
  const Search two = explore<2, 2, 2>("2 x 2, straddling, endless, fair", both, endless);
  CHECK(two.wrong == "");
  CHECK(two.complete);
  const Search evicted = explore<2, 2, 2>("2 x 2, straddling writes, endless, evictions, fair", {{0, {{W0, W1}, {R1}}}, {1, {{W1, W0}}}}, evicting);
  CHECK(evicted.wrong == "");
  CHECK(evicted.complete);
  const Search one = explore<3, 1, 3>("3 x 1, endless, evictions, fair", readers_and_writers(3), evicting);
  CHECK(one.wrong == "");
  CHECK(one.complete);
  for (const Mistake mistake : {Mistake::NoHold, Mistake::PlainHold}) {
    planted_mistake = mistake;
    const Search search = explore<2, 2, 2>(name(mistake), both, endless);
    planted_mistake = Mistake::None;
    CHECK(search.wrong != "");
  }
}

TEST_CASE("explorer: two threads of one agent and one of another, accesses over both blocks") {
  const std::vector<ThreadPlan> plans = {{0, {{W0, W1}}}, {0, {{W1, W0}, {R1}}}, {1, {{W1, W0}, {W0}}}};
  const Search search = explore<2, 2, 3>("2 x 2, 3 threads, 2 accesses, progress", plans, {.accesses = 2, .values = 2, .evictions = false, .progress = true});
  CHECK(search.wrong == "");
  CHECK(search.complete);
}

TEST_CASE("explorer: each planted mistake is found") {
  const std::vector<ThreadPlan> straddling = {{0, {{W0, W1}, {R0, W1}}}, {1, {{W1, W0}, {R1}, {W0}}}};
  const std::vector<ThreadPlan> three = {{0, {{W0, W1}}}, {0, {{W1, W0}}}, {1, {{W1, W0}, {R0}}}};
  for (uint8_t m = 1; m < static_cast<uint8_t>(Mistake::kCount); m++) {
    const auto mistake = static_cast<Mistake>(m);
    planted_mistake = mistake;
    std::string found;
    const auto look = [&](const Search& search) {
      if (found.empty()) found = search.wrong;
    };
    look(explore<3, 1, 3>(name(mistake), readers_and_writers(3), {.accesses = 2, .values = 3, .most_states = 2'000'000}));
    if (found.empty())
      look(explore<2, 2, 2>(name(mistake), straddling, {.accesses = 2, .values = 2, .evictions = false, .progress = true, .most_states = 2'000'000}));
    if (found.empty())
      look(explore<2, 2, 2>(name(mistake), straddling, {.accesses = 1, .values = 2, .progress = true, .most_states = 2'000'000}));
    if (found.empty())
      look(explore<2, 2, 3>(name(mistake), three, {.accesses = 2, .values = 2, .evictions = false, .progress = true, .most_states = 2'000'000}));
    planted_mistake = Mistake::None;
    CAPTURE(std::string(name(mistake)));
    CHECK(found != "");
  }
}

}  // namespace farpage::model
