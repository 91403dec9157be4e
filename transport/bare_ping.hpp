// The floor of a miss on the wire: a bare UCX active-message round trip between two processes, with nothing of ours. For
// dsm-perf; forks, so it is called when no thread of the caller is inside UCX.
#pragma once

#include <cstdint>
#include <vector>

namespace farpage::transport {

/// Round trips of `request_bytes` there and `reply_bytes` back, microseconds each. `poll`: both sides poll without pause; else
/// both sleep in epoll between messages. Empty when UCX cannot be started.
std::vector<double> bare_round_trip_us(bool tcp, bool poll, uint32_t request_bytes, uint32_t reply_bytes, uint32_t count);

/// MiB/s of `count` messages of `bytes` one way, the receiver granting the sender 64 ahead. 0 when UCX cannot be started.
double bare_stream_mib_s(bool tcp, uint32_t bytes, uint32_t count);

}  // namespace farpage::transport
