// dsm_malloc, dsm_calloc, dsm_alloc, dsm_free.
#include <cstring>
#include <limits>

#include "api/src/runtime.hpp"

namespace farpage::api {
namespace {

using memory::Consistency;
using memory::Placement;
using memory::RegionDescriptor;

static_assert(static_cast<int>(Consistency::Immutable) == DSM_IMMUTABLE && static_cast<int>(Consistency::Coherent) == DSM_COHERENT);
static_assert(static_cast<int>(Placement::Slices) == DSM_PLACE_SLICES && static_cast<int>(Placement::Interleave) == DSM_PLACE_INTERLEAVE);

Result<> check_rank(const Runtime& runtime, int rank, const char* what) {
  if (rank >= 0 && static_cast<uint32_t>(rank) < runtime.node->shape().ranks) return success();
  return error(Status::InvalidArgument, "{} {}: there are ranks 0 to {}", what, rank, runtime.node->shape().ranks - 1);
}

Result<> place_slices(const Runtime& runtime, const dsm_alloc_params_t& params, RegionDescriptor& region) {
  if (params.slices == nullptr || params.slice_count == 0 || params.slice_count > memory::kMaxSlices)
    return error(Status::InvalidArgument, "{} slices: 1 to {} are possible", params.slice_count, memory::kMaxSlices);
  uint64_t at = 0;
  for (size_t i = 0; i < params.slice_count; i++) {
    const dsm_slice_t& slice = params.slices[i];
    DSM_TRY(check_rank(runtime, slice.rank, "slice at rank"));
    const bool last = i + 1 == params.slice_count;
    if (slice.bytes > params.bytes - at || (!last && (slice.bytes == 0 || slice.bytes % region.block_bytes() != 0)))
      return error(Status::InvalidArgument, "slice {} of {} bytes: slices are multiples of the block size {} and sum up to {} bytes", i,
                   slice.bytes, region.block_bytes(), params.bytes);
    region.slice[i].rank = static_cast<uint16_t>(slice.rank);
    region.slice[i].first_byte = at;
    at += slice.bytes;
  }
  if (at != params.bytes) return error(Status::InvalidArgument, "the slices have {} bytes, the region {}", at, params.bytes);
  region.slices = static_cast<uint16_t>(params.slice_count);
  return success();
}

Result<RegionDescriptor> describe(const Runtime& runtime, const dsm_alloc_params_t& params) {
  if (params.struct_size < sizeof(dsm_alloc_params_t))
    return error(Status::InvalidArgument, "dsm_alloc_params_t of {} bytes: fill it with DSM_ALLOC_INIT", params.struct_size);
  if (params.bytes == 0) return error(Status::InvalidArgument, "0 bytes asked for");
  RegionDescriptor region;
  region.bytes = params.bytes;
  uint64_t block = 0;
  switch (params.consistency) {
    case DSM_COHERENT: block = runtime.options.coherent_block_bytes; break;
    case DSM_IMMUTABLE: block = runtime.options.immutable_block_bytes; break;
    case DSM_RELEASE:
    case DSM_UNCACHED:
      return error(Status::Unsupported, "consistency {} is not in this version: DSM_COHERENT and DSM_IMMUTABLE are",
                   params.consistency == DSM_RELEASE ? "DSM_RELEASE" : "DSM_UNCACHED");
    default: return error(Status::InvalidArgument, "consistency {}", static_cast<int>(params.consistency));
  }
  region.consistency = static_cast<Consistency>(params.consistency);
  if (params.block_bytes != 0) block = params.block_bytes;
  if (!is_power_of_two(block) || block < kPageBytes || block > kMaxBlockBytes)
    return error(Status::InvalidArgument, "block size {}: a power of two from 4096 to {} is needed", block, kMaxBlockBytes);
  region.block_shift = static_cast<uint8_t>(log2_exact(block));
  if (runtime.node->shape().domains > 1 && runtime.options.cache_bytes < 8 * block)
    return error(Status::InvalidArgument, "block size {}: DSM_CACHE_BYTES={} must hold at least 8 blocks", block, runtime.options.cache_bytes);
  switch (params.placement) {
    case DSM_PLACE_LOCAL: region.home_rank = runtime.node->shape().rank.value; break;
    case DSM_PLACE_AT_RANK:
      DSM_TRY(check_rank(runtime, params.rank, "placement at rank"));
      region.home_rank = static_cast<uint16_t>(params.rank);
      break;
    case DSM_PLACE_INTERLEAVE:
      region.interleave_bytes = params.interleave_bytes == 0 ? kRunBytes : params.interleave_bytes;
      if (region.interleave_bytes % block != 0)
        return error(Status::InvalidArgument, "interleave of {} bytes: a multiple of the block size {} is needed", region.interleave_bytes, block);
      break;
    case DSM_PLACE_SLICES: DSM_TRY(place_slices(runtime, params, region)); break;
    default: return error(Status::InvalidArgument, "placement {}", static_cast<int>(params.placement));
  }
  region.placement = static_cast<Placement>(params.placement);
  return region;
}

}  // namespace
}  // namespace farpage::api

using namespace farpage;
using namespace farpage::api;

extern "C" {

void* dsm_malloc(size_t bytes) {
  void* memory = nullptr;
  (void)guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    DSM_ASSIGN(const allocator::Object object, runtime->heap->allocate(bytes));
    memory = runtime->node->window().at(object.offset);
    if (!object.fresh) std::memset(memory, 0, bytes);
    return success();
  });
  return memory;
}

void* dsm_calloc(size_t count, size_t bytes) {
  if (bytes != 0 && count > std::numeric_limits<size_t>::max() / bytes) {
    report(error(Status::OutOfMemory, "{} x {} bytes overflows", count, bytes));
    return nullptr;
  }
  return dsm_malloc(count * bytes);
}

dsm_status_t dsm_alloc(const dsm_alloc_params_t* params, void** out) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    if (params == nullptr || out == nullptr) return error(Status::InvalidArgument, "NULL argument");
    DSM_ASSIGN(const RegionDescriptor region, describe(*runtime, *params));
    DSM_ASSIGN(const WindowOffset offset, runtime->heap->allocate_region(region));
    *out = runtime->node->window().at(offset);
    return success();
  });
}

dsm_status_t dsm_free(void* ptr) {
  if (ptr == nullptr) return DSM_OK;
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    DSM_ASSIGN(const WindowOffset offset, offset_of(*runtime, ptr));
    return runtime->heap->free(offset);
  });
}

}  // extern "C"
