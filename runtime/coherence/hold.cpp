#include "runtime/coherence/hold.hpp"

#include <algorithm>

namespace farpage::coherence {
namespace {

bool remembered(const ThreadHold& hold, ThreadHold::Access access) {
  return std::find(hold.since_timer, hold.since_timer + hold.grant_count, access) != hold.since_timer + hold.grant_count;
}

template <class Keep>
Released release_unless(ThreadHold& hold, Keep&& keep) {
  Released released;
  uint8_t kept = 0;
  for (uint32_t i = 0; i < hold.held_count; i++) {
    if (keep(hold.held[i]))
      hold.held[kept++] = hold.held[i];
    else
      released.blocks[released.count++] = hold.held[i];
  }
  hold.held_count = kept;
  return released;
}

}  // namespace

FaultNote on_fault(ThreadHold& hold, uint64_t block, bool write) {
  const ThreadHold::Access access{block, write};
  const bool wasted = remembered(hold, access);
  hold.several |= wasted;
  if (hold.had_grant && (wasted || hold.last == access))
    hold.backoff = std::min<uint8_t>(hold.backoff + 1, ThreadHold::kMaxBackoff);
  else if (!hold.several)
    hold.backoff = 0;
  if (planted(Mistake::KeepEverything)) return {{}, wasted};
  if (!hold.several || planted(Mistake::PlainHold)) return {release_unless(hold, [](uint64_t) { return false; }), wasted};
  // Below the new block, the lowest going first when there are too many. held[] is in order of granting, not of address.
  uint32_t below = static_cast<uint32_t>(std::count_if(hold.held, hold.held + hold.held_count, [=](uint64_t b) { return b < block; }));
  uint64_t lowest = 0;
  bool drop_lowest = below == ThreadHold::kMost;
  if (drop_lowest) lowest = *std::min_element(hold.held, hold.held + hold.held_count);
  return {release_unless(hold, [=](uint64_t b) { return b < block && !(drop_lowest && b == lowest); }), wasted};
}

bool on_wake(ThreadHold& hold, uint64_t block, bool write) {
  const ThreadHold::Access access{block, write};
  hold.last = access;
  hold.had_grant = true;
  if (!remembered(hold, access)) {
    if (hold.grant_count == ThreadHold::kGrants) {  // the oldest is forgotten: four blocks, read and write, still fit
      std::copy(hold.since_timer + 1, hold.since_timer + ThreadHold::kGrants, hold.since_timer);
      hold.grant_count--;
    }
    hold.since_timer[hold.grant_count++] = access;
  }
  if (planted(Mistake::NoHold) || hold.holds(block)) return false;
  if (hold.held_count == ThreadHold::kMost) return false;  // only with KeepEverything: the block is not held then
  hold.held[hold.held_count++] = block;
  return true;
}

Released on_timer(ThreadHold& hold) {
  hold.grant_count = 0;
  hold.several = false;
  return release_unless(hold, [](uint64_t) { return false; });
}

}  // namespace farpage::coherence
