// How the data of a file is spread over the ranks: pure arithmetic, any thread.
#pragma once

#include <cstdint>

#include "runtime/memory/region.hpp"

namespace farpage::weights {

/// An IMMUTABLE region of `bytes` > 0 in equal slices over `ranks` ranks (over kMaxSlices of them, evenly spaced, when
/// there are more). Slices begin at multiples of the block size; of 2 MiB where the file is big enough that this costs
/// little balance, so that a rank's home memory can be huge pages.
memory::RegionDescriptor spread(uint64_t bytes, uint32_t ranks, uint64_t block_bytes);

}  // namespace farpage::weights
