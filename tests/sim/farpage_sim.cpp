// farpage_sim: one seeded simulation, to replay what a test has printed or to run for as long as one likes.
//   farpage_sim --seed N [--agents 2|4|16|64] [--accesses M] [--seeds COUNT]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/simulation.hpp"

int main(int argc, char** argv) {
  farpage::sim::Settings settings;
  uint64_t seeds = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) settings.seed = value;
    else if (std::strcmp(argv[i], "--accesses") == 0) settings.accesses = value;
    else if (std::strcmp(argv[i], "--agents") == 0) settings.agents = static_cast<int>(value);
    else if (std::strcmp(argv[i], "--seeds") == 0) seeds = value;
    else {
      std::fprintf(stderr, "farpage_sim: unknown option %s\n", argv[i]);
      return 2;
    }
  }
  for (uint64_t n = 0; n < seeds; n++, settings.seed++) {
    const farpage::sim::Outcome outcome = farpage::sim::simulate(settings);
    std::printf("seed %llu: %llu accesses, %llu messages, %llu evictions, digest %016llx: %s\n", static_cast<unsigned long long>(settings.seed),
                static_cast<unsigned long long>(outcome.accesses), static_cast<unsigned long long>(outcome.messages),
                static_cast<unsigned long long>(outcome.evictions), static_cast<unsigned long long>(outcome.digest),
                outcome.wrong.empty() ? "ok" : outcome.wrong.c_str());
    if (!outcome.wrong.empty()) return 1;
  }
  return 0;
}
