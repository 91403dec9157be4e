// dsm_get, dsm_put, dsm_prefetch, dsm_publish, dsm_barrier.
#include "api/src/runtime.hpp"
#include "runtime/memory/fault_report.hpp"
#include "runtime/sync/barrier.hpp"

namespace farpage::api {
namespace {

using memory::Consistency;
using memory::RegionDescriptor;
using memory::RegionState;

// The region that holds all of the range.
Result<RegionDescriptor*> region_of(const Runtime& runtime, const void* pointer, size_t bytes) {
  DSM_ASSIGN(const WindowOffset offset, offset_of(runtime, pointer));
  DSM_ASSIGN(RegionDescriptor * region, runtime.node->resolve(offset));
  if (offset - region->offset > region->bytes || bytes > region->bytes - (offset - region->offset))
    return error(Status::OutOfRange, "{} bytes at {} bytes into a region of {} bytes: {} past its end", bytes, offset - region->offset,
                 region->bytes, bytes - (region->bytes - std::min(region->bytes, offset - region->offset)));
  return region;
}

Result<> copied(Status status, size_t bytes) {
  if (status == Status::Ok) return success();
  return error(status, "{} while {} bytes were being copied", status_name(status), bytes);
}

}  // namespace
}  // namespace farpage::api

using namespace farpage;
using namespace farpage::api;

extern "C" {

dsm_status_t dsm_get(void* dst, const void* src, size_t bytes) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    if (bytes == 0) return success();
    if (dst == nullptr) return error(Status::InvalidArgument, "NULL destination");
    DSM_TRY(region_of(*runtime, src, bytes));
    return copied(memory::guarded_copy(dst, src, bytes), bytes);
  });
}

dsm_status_t dsm_put(void* dst, const void* src, size_t bytes) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    if (bytes == 0) return success();
    if (src == nullptr) return error(Status::InvalidArgument, "NULL source");
    DSM_ASSIGN(const RegionDescriptor* region, region_of(*runtime, dst, bytes));
    if (region->state == RegionState::Published) return error(Status::Unsupported, "put into a published IMMUTABLE region");
    return copied(memory::guarded_copy(dst, src, bytes), bytes);
  });
}

dsm_status_t dsm_prefetch(const void* ptr, size_t bytes) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    if (bytes == 0) return success();
    DSM_TRY(region_of(*runtime, ptr, bytes));
    if (runtime->node->shape().domains == 1) return success();
    return runtime->node->prefetch({runtime->node->window().offset_of(ptr), bytes});
  });
}

dsm_status_t dsm_publish(void* ptr) {
  return guarded([&]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    DSM_ASSIGN(const RegionDescriptor* region, region_of(*runtime, ptr, 1));
    if (region->consistency != Consistency::Immutable) return error(Status::InvalidArgument, "publish: the region is not IMMUTABLE");
    if (region->state == RegionState::Published) return error(Status::InvalidArgument, "publish: the region is published already");
    return runtime->node->publish(region->offset);
  });
}

dsm_status_t dsm_barrier(void) {
  return guarded([]() -> Result<> {
    DSM_ASSIGN(Runtime * runtime, entry());
    return sync::barrier(*runtime->node);
  });
}

}  // extern "C"
