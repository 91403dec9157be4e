// The floors that dsm-perf prints beside its figures: what the machine itself takes for the same thing, with nothing of ours.
// Each forks its own pair of processes and may be called from a program with no other threads that matter.
#pragma once

#include <cstdint>
#include <vector>

namespace farpage::perf {

struct Placement {
  bool same_core = true;  // both sides on one core, else on two
  bool spin = true;       // the server polls, else it sleeps between requests
};

/// A page fault of 4 KiB served by another process through a passed userfaultfd (UFFDIO_COPY), nanoseconds each.
/// Empty when userfaultfd is refused.
std::vector<double> cross_process_fault_ns(Placement placement, uint32_t count);

/// The same fault 1 ms after the one before, the server asleep.
std::vector<double> isolated_cross_process_fault_ns(Placement placement, uint32_t count);

/// A round trip of a word between two processes over a Unix socket: two wake-ups and no page tables, nanoseconds each.
std::vector<double> socket_round_trip_ns(bool same_core, uint32_t count);

/// A plain shared memfd of `bytes`, touched: what global memory that is here should be as fast as.
class PlainMemory {
 public:
  explicit PlainMemory(uint64_t bytes);
  ~PlainMemory();
  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
  uint64_t bytes_;
};

/// Loads or stores of one byte a cache line, bytes a second.
double walk_rate(char* memory, uint64_t bytes, bool write_it);

double median(std::vector<double> values);
double percentile(std::vector<double> values, double fraction);

}  // namespace farpage::perf
