// The one place where UCX's status codes become ours.
#pragma once

#include <ucs/type/status.h>

#include "runtime/base/result.hpp"

namespace farpage::transport {

Status status_of(ucs_status_t status);
/// "<what>: <UCX's words>"
Error ucx_error(ucs_status_t status, const char* what);

}  // namespace farpage::transport
