// What memory this process may use: past a memory cgroup's limit the kernel kills, there is no error to wait for.
#pragma once

#include <cstdint>

namespace farpage::memory {

/// The smallest of physical memory and the memory limits of the cgroups (v2 or v1) that this process is in.
uint64_t memory_limit_bytes();

}  // namespace farpage::memory
