#include "runtime/engine/cache.hpp"

#include "runtime/base/check.hpp"

namespace farpage::engine {

Cache::Cache(const memory::StateSegment& segment, uint64_t limit_bytes)
    : segment_(&segment), frames_(segment.frames()), limit_bytes_(limit_bytes) {
  free_.reserve(frames_.size());
}

void Cache::take(uint64_t slot, uint64_t block_bytes) {
  memory::BlockMap& map = segment_->block_map(slot);
  if (map.frame_plus_one != 0) return;
  uint32_t frame;
  if (!free_.empty()) {
    frame = free_.back();
    free_.pop_back();
  } else {
    DSM_CHECK(high_water_ < frames_.size(), "{} frames in use", high_water_);
    frame = high_water_++;
  }
  frames_[frame] = slot + 1;
  map.frame_plus_one = frame + 1;
  used_bytes_ += block_bytes;
  segment_->counters().add(Counter::cached_bytes, block_bytes);
}

void Cache::release(uint64_t slot, uint64_t block_bytes) {
  memory::BlockMap& map = segment_->block_map(slot);
  if (map.frame_plus_one == 0) return;
  frames_[map.frame_plus_one - 1] = 0;
  free_.push_back(map.frame_plus_one - 1);
  map.frame_plus_one = 0;
  used_bytes_ -= block_bytes;
  segment_->counters().sub(Counter::cached_bytes, block_bytes);
}

}  // namespace farpage::engine
