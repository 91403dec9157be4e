#include "runtime/weights/slices.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace farpage::weights {
namespace {
constexpr uint64_t kUnitsForRuns = 8;  // whole 2 MiB runs when each rank has at least 8: at most 1/8 out of balance
}

memory::RegionDescriptor spread(uint64_t bytes, uint32_t ranks, uint64_t block_bytes) {
  DSM_CHECK(bytes > 0 && ranks > 0 && is_power_of_two(block_bytes));
  memory::RegionDescriptor region;
  region.bytes = bytes;
  region.block_shift = static_cast<uint8_t>(log2_exact(block_bytes));
  region.consistency = memory::Consistency::Immutable;
  region.placement = memory::Placement::Slices;

  const uint64_t parts = std::min<uint64_t>(ranks, memory::kMaxSlices);
  const uint64_t unit = bytes / kRunBytes >= parts * kUnitsForRuns ? std::max(kRunBytes, block_bytes) : block_bytes;
  const uint64_t units = (bytes + unit - 1) / unit;
  for (uint64_t part = 0; part < parts; part++) {
    // Share `part` is [part * units / parts, (part + 1) * units / parts): shares differ by one unit at most. 128 bits,
    // because units may be 2^63 / 4096.
    const auto share = [&](uint64_t n) {
      return static_cast<uint64_t>(static_cast<unsigned __int128>(units) * n / parts);
    };
    if (share(part) == share(part + 1)) continue;
    memory::Slice& slice = region.slice[region.slices++];
    slice.rank = static_cast<uint16_t>(part * ranks / parts);
    slice.first_byte = share(part) * unit;
  }
  return region;
}

}  // namespace farpage::weights
