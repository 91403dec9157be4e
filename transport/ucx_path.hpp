// Which transport and device an endpoint really uses. UCX 1.13 says it only in what it prints about an endpoint; newer ones print the
// same lines.
#pragma once

#include <string>
#include <string_view>

namespace farpage::transport {

/// "sysv (memory)", "tcp (lo)" from the output of ucp_ep_print_info: the lane that carries active messages. Pure.
std::string path_in(std::string_view endpoint_info);

}  // namespace farpage::transport
