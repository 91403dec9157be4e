// A seeded run of the production drivers: messages delayed and reordered at will, threads, hold timers and evictions interleaved
// by one random number generator. Writes change one word of a block, so that a copy laid on old bytes loses somebody's word.
// What is recorded is the history: which access completed when, and what a read saw. The checker knows nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace farpage::sim {

struct Access {
  uint32_t thread;
  uint8_t block, word;
  bool write;
  uint32_t value;  // written: unique; read: seen
};

struct Settings {
  uint64_t seed = 1;
  uint64_t accesses = 100'000;
  int agents = 4;  // 2, 4, 16 or 64
};

struct Outcome {
  uint64_t accesses = 0, messages = 0, evictions = 0;
  uint64_t digest = 0;    // of the history: the same seed, the same digest
  std::string wrong;      // empty: the history is sequentially consistent, nobody hangs
};

Outcome simulate(const Settings& settings);

/// Reads a history in the order of completion: every read saw the last completed write to its word, every access of a
/// two-block instruction at the same moment. Empty when it holds, else the first access that is wrong.
class Checker {
 public:
  Checker() : words_(256 * 4) {}
  std::string add(const Access& access);

 private:
  std::vector<uint32_t> words_;
  uint64_t count_ = 0;
};

}  // namespace farpage::sim
