// One line on a terminal that is redrawn while files are read: "weights: 43 % of 86.7 MiB". Silent where stderr is no
// terminal, and on all ranks but 0: ranks read equal shares at once, so one rank's progress is the job's. One thread.
#pragma once

#include <cstdint>

namespace farpage::weights {

class Progress {
 public:
  /// `share_bytes`: what this rank reads; `total_bytes`: what the job reads.
  Progress(bool first_rank, uint64_t share_bytes, uint64_t total_bytes);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void add(uint64_t bytes);

 private:
  void draw() const;
  bool shown_;
  uint64_t share_bytes_;
  uint64_t total_bytes_;
  uint64_t done_bytes_ = 0;
  uint64_t drawn_percent_ = 0;
};

}  // namespace farpage::weights
