#include "runtime/base/result.hpp"

namespace farpage {

const char* status_name(Status status) {
  switch (status) {
    case Status::Ok: return "ok";
    case Status::InvalidArgument: return "invalid argument";
    case Status::OutOfMemory: return "out of memory";
    case Status::NotInitialized: return "not initialized";
    case Status::AlreadyInitialized: return "already initialized";
    case Status::Unsupported: return "unsupported";
    case Status::OutOfRange: return "out of range";
    case Status::Freed: return "freed";
    case Status::TimedOut: return "timed out";
    case Status::PeerLost: return "peer lost";
    case Status::Mismatch: return "ranks disagree";
    case Status::Io: return "input/output error";
    case Status::NotFound: return "not found";
    case Status::Busy: return "busy";
    case Status::Internal: return "internal error";
  }
  return "unknown status";
}

}  // namespace farpage
