// The transport inside one process: N agents, each owned by its own thread, messages handed over through mutex-guarded queues. For
// tests of the engine and for sanitizers, which see races between the threads of one process only. The same contract as UCX:
// any order between peers, credits, nothing delivered inside send().
#pragma once

#include <memory>
#include <vector>

#include "transport/transport.hpp"

namespace farpage::transport {

/// Transports of agents 0 .. agents-1, connected with each other. They share their queues: destroy them when all threads are done.
std::vector<std::unique_ptr<Transport>> make_loopback(uint32_t agents);

}  // namespace farpage::transport
