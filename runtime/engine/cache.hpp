// Frames that are not home memory: how many bytes, and in which order they are given up (a clock with one reference bit).
// Counts; the deciding and withdrawing is the caller's. State lies in the state segment (frame table, block maps).
// One lane's: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/counters.hpp"
#include "runtime/memory/state_segment.hpp"

namespace farpage::engine {

class Cache {
 public:
  Cache(const memory::StateSegment& segment, uint64_t limit_bytes);

  /// A sixteenth stays free for responses and clean drops.
  bool has_room(uint64_t block_bytes) const { return used_bytes_ + block_bytes <= limit_bytes_ - limit_bytes_ / 16; }
  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }

  /// A frame for the block, from the request until the block has gone. No-op when it has one.
  void take(uint64_t slot, uint64_t block_bytes);
  void release(uint64_t slot, uint64_t block_bytes);
  /// Releases the frames of all blocks for which inside(slot) is true.
  template <class Inside>
  void release_if(Inside&& inside, uint64_t block_bytes) {
    for (uint32_t frame = 0; frame < high_water_; frame++)
      if (frames_[frame] != 0 && inside(frames_[frame] - 1)) release(frames_[frame] - 1, block_bytes);
  }
  bool holds(uint64_t slot) const { return segment_->block_map(slot).frame_plus_one != 0; }

  /// Turns the clock: asks `evictable(slot)` for each frame in turn (0 no, 1 clean, 2 dirty) and returns a victim: a clean
  /// one without reference, else any clean one, else a dirty one; false when there is none.
  template <class Evictable>
  bool find_victim(Evictable&& evictable, uint64_t& victim) {
    for (int pass = 0; pass < 3; pass++) {
      for (uint32_t step = 0; step < high_water_; step++) {
        hand_ = (hand_ + 1) % high_water_;
        const uint64_t slot_plus_one = frames_[hand_];
        if (slot_plus_one == 0) continue;
        const uint64_t slot = slot_plus_one - 1;
        const int kind = evictable(slot);
        if (kind == 0 || (kind == 2 && pass < 2)) continue;
        memory::BlockMap& map = segment_->block_map(slot);
        if (pass == 0 && (map.flags & memory::kReferenced)) {
          map.flags &= static_cast<uint8_t>(~memory::kReferenced);
          continue;
        }
        victim = slot;
        return true;
      }
    }
    return false;
  }

 private:
  const memory::StateSegment* segment_;
  std::span<uint64_t> frames_;  // slot + 1; 0: free
  std::vector<uint32_t> free_;
  uint32_t high_water_ = 0;
  uint32_t hand_ = 0;
  uint64_t used_bytes_ = 0;
  uint64_t limit_bytes_;
};

}  // namespace farpage::engine
