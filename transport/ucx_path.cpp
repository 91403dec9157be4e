#include "transport/ucx_path.hpp"

namespace farpage::transport {

// "#   lane[0]:  2:sysv/memory.0 md[2]   -> md[2]/sysv/sysdev[255]   am am_bw#0"
std::string path_in(std::string_view endpoint_info) {
  constexpr size_t kNone = std::string_view::npos;
  for (size_t at = endpoint_info.find("lane["); at != kNone; at = endpoint_info.find("lane[", at + 1)) {
    const std::string_view line = endpoint_info.substr(at, endpoint_info.find('\n', at) - at);
    if (line.find(" am") == kNone) continue;
    const size_t colon = line.find(':', line.find(':') + 1), slash = line.find('/', colon);
    if (colon == kNone || slash == kNone) continue;
    const std::string_view device = line.substr(slash + 1, line.find_first_of(" .", slash) - slash - 1);
    return std::string(line.substr(colon + 1, slash - colon - 1)) + " (" + std::string(device) + ")";
  }
  return "unknown";
}

}  // namespace farpage::transport
