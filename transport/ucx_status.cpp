#include "transport/ucx_status.hpp"

namespace farpage::transport {

Status status_of(ucs_status_t status) {
  switch (status) {
    case UCS_OK:
    case UCS_INPROGRESS: return Status::Ok;
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT: return Status::OutOfMemory;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
    case UCS_ERR_OUT_OF_RANGE: return Status::InvalidArgument;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
    case UCS_ERR_SOME_CONNECTS_FAILED:
    case UCS_ERR_NO_DEVICE: return Status::Unsupported;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_CANCELED: return Status::PeerLost;
    case UCS_ERR_TIMED_OUT: return Status::TimedOut;
    case UCS_ERR_BUSY: return Status::Busy;
    case UCS_ERR_IO_ERROR: return Status::Io;
    case UCS_ERR_NO_MESSAGE:
    case UCS_ERR_NO_PROGRESS:
    case UCS_ERR_NO_ELEM: return Status::NotFound;
    case UCS_ERR_BUFFER_TOO_SMALL:
    case UCS_ERR_MESSAGE_TRUNCATED:
    case UCS_ERR_SHMEM_SEGMENT:
    case UCS_ERR_ALREADY_EXISTS:
    case UCS_ERR_FIRST_LINK_FAILURE:
    case UCS_ERR_LAST_LINK_FAILURE:
    case UCS_ERR_FIRST_ENDPOINT_FAILURE:
    case UCS_ERR_LAST_ENDPOINT_FAILURE:
    case UCS_ERR_LAST: return Status::Internal;
  }
  return Status::Internal;  // a code of a newer UCX
}

Error ucx_error(ucs_status_t status, const char* what) { return error(status_of(status), "{}: {}", what, ucs_status_string(status)); }

}  // namespace farpage::transport
