// Which of UCX's settings we choose, by the path that was asked for. A variable that the user has set (UCX_TLS, ...) is left alone.
// Any thread.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "transport/ucx_transport.hpp"

namespace farpage::transport {

struct UcxSetting {
  const char* name;  // without UCX_
  std::string value;
  bool operator==(const UcxSetting&) const = default;
};

/// An error when no interface is named and none can be assumed, or when it is not one interface: whoever reaches a port of
/// UCX can write into this process, so we never listen on all of them.
Result<std::vector<UcxSetting>> ucx_settings(const UcxParameters& parameters);

}  // namespace farpage::transport
