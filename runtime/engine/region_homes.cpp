// Arithmetic on who is a home of a region; no messages.
#include <algorithm>
#include <bitset>

#include "runtime/engine/region_service.hpp"

namespace farpage::engine {
namespace {

// Calls visit(rank, bytes) for each rank with a part of the region; a rank may come more than once with Slices.
template <class Visit>
void for_each_home(const memory::RegionDescriptor& region, Visit&& visit) {
  const uint64_t total = region.end() - region.offset;
  switch (region.placement) {
    case memory::Placement::Local:
    case memory::Placement::AtRank: return visit(RankId{region.home_rank}, total);
    case memory::Placement::Interleave: {
      const uint64_t chunk = region.interleave_bytes, cycle = chunk * region.ranks;
      for (uint32_t rank = 0; rank < region.ranks; rank++) {
        const uint64_t rest = total % cycle, before = rank * chunk;
        const uint64_t bytes = total / cycle * chunk + (rest > before ? std::min(chunk, rest - before) : 0);
        if (bytes != 0) visit(RankId{static_cast<uint16_t>(rank)}, bytes);
      }
      return;
    }
    case memory::Placement::Slices:
      for (uint32_t i = 0; i < region.slices; i++) {
        const uint64_t end = i + 1 < region.slices ? region.slice[i + 1].first_byte : total;
        if (end > region.slice[i].first_byte) visit(RankId{region.slice[i].rank}, end - region.slice[i].first_byte);
      }
      return;
  }
}

}  // namespace

uint64_t home_bytes_in(const memory::RegionDescriptor& region, AgentId domain, const JobShape& shape) {
  uint64_t sum = 0;
  for_each_home(region, [&](RankId rank, uint64_t bytes) { sum += shape.domain_of[rank.value] == domain ? bytes : 0; });
  return sum;
}

uint64_t home_domains(const memory::RegionDescriptor& region, const JobShape& shape) {
  uint64_t mask = 0;
  for_each_home(region, [&](RankId rank, uint64_t) { mask |= uint64_t{1} << shape.domain_of[rank.value].value; });
  return mask;
}

uint32_t home_ranks(const memory::RegionDescriptor& region) {
  std::bitset<kMaxRanks> ranks;
  for_each_home(region, [&](RankId rank, uint64_t) { ranks.set(rank.value); });
  return static_cast<uint32_t>(ranks.count());
}

bool is_home_rank(const memory::RegionDescriptor& region, RankId wanted) {
  bool found = false;
  for_each_home(region, [&](RankId rank, uint64_t) { found |= rank == wanted; });
  return found;
}

Result<> reserve_home_bytes(const memory::StateSegment& segment, AgentId domain, uint64_t bytes) {
  auto& used = segment.counters().values[static_cast<uint32_t>(Counter::home_bytes)];
  const uint64_t limit = segment.header().home_bytes_limit.load(std::memory_order_relaxed);
  uint64_t now = used.load(std::memory_order_relaxed);
  do {
    if (bytes > limit || now > limit - bytes)
      return error(Status::OutOfMemory,
                   "domain {}: {} bytes of home memory asked for, {} of {} in use (DSM_HOME_BYTES, or the memory limit less "
                   "DSM_CACHE_BYTES)",
                   domain.value, bytes, now, limit);
  } while (!used.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return success();
}

}  // namespace farpage::engine
