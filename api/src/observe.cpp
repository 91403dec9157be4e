// dsm_query, counters.
#include <algorithm>
#include <cstring>

#include "api/src/runtime.hpp"

using namespace farpage;
using namespace farpage::api;

extern "C" {

dsm_status_t dsm_query(const void* ptr, dsm_info_t* info) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    if (info == nullptr || info->struct_size < sizeof(dsm_info_t)) return error(Status::InvalidArgument, "dsm_info_t: fill it with DSM_INFO_INIT");
    DSM_ASSIGN(const WindowOffset offset, offset_of(*runtime, ptr));
    const engine::Node& node = *runtime->node;
    DSM_ASSIGN(const memory::RegionDescriptor* region, runtime->node->resolve(offset));
    const uint64_t block = region->block_of(offset);
    const RankId home = region->home_of(block);
    info->region = node.window().at(region->offset);
    info->region_bytes = region->bytes;
    info->block_bytes = region->block_bytes();
    info->block = block;
    info->home_rank = home.value;
    info->home_domain = node.shape().domain_of[home.value].value;
    info->owner_rank = region->owner_rank;
    info->consistency = static_cast<dsm_consistency_t>(region->consistency);
    info->placement = static_cast<dsm_placement_t>(region->placement);
    info->published = region->state == memory::RegionState::Published;
    info->generation = region->generation;
    const uint8_t present = node.segment().presence()[region->block_offset(block) >> kPageShift].load(std::memory_order_relaxed);
    const bool home_here = node.shape().domain_of[home.value] == node.shape().domain;
    info->present = (present & memory::kWritable) ? 2 : (present & memory::kPresent) ? 1 : home_here && node.shape().domains == 1 ? 2 : 0;
    return success();
  });
}

size_t dsm_counter_count(void) { return kCounters; }

const char* dsm_counter_name(size_t index) {
  return index < kCounters ? counter_info(static_cast<Counter>(index)).name : nullptr;
}

dsm_status_t dsm_stats(uint64_t* values, size_t count) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    if (values == nullptr && count != 0) return error(Status::InvalidArgument, "NULL values");
    for (size_t i = 0; i < std::min<size_t>(count, kCounters); i++) values[i] = runtime->node->counters().get(static_cast<Counter>(i));
    return success();
  });
}

dsm_status_t dsm_counter(const char* name, uint64_t* value) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    if (name == nullptr || value == nullptr) return error(Status::InvalidArgument, "NULL argument");
    for (uint32_t i = 0; i < kCounters; i++) {
      if (std::strcmp(counter_info(static_cast<Counter>(i)).name, name) != 0) continue;
      *value = runtime->node->counters().get(static_cast<Counter>(i));
      return success();
    }
    return error(Status::NotFound, "no counter named {}", name);
  });
}

}  // extern "C"
