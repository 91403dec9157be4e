#include "runtime/memory/limits.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace farpage::memory {
namespace {

// "max", absent, or a number.
uint64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t bytes = 0;
  return file >> bytes ? bytes : UINT64_MAX;
}

}  // namespace

uint64_t memory_limit_bytes() {
  uint64_t limit = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" (v2) or "5:memory:/path" (v1); a limit may stand at any level above.
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers != "memory") continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string path = line.substr(second + 1);; path = path.substr(0, path.rfind('/'))) {
      limit = std::min(limit, limit_in(root + path + (unified ? "/memory.max" : "/memory.limit_in_bytes")));
      if (path.empty() || path == "/") break;
    }
  }
  return limit;
}

}  // namespace farpage::memory
