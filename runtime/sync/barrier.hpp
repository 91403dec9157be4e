// The job's barrier: arrival in shared memory inside a domain, the last one to arrive meets the other domains through the
// lane, then releases its own. Sleeps on a futex after a moment of giving way; ranks outnumber cores.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/engine/node.hpp"

namespace farpage::sync {

/// Collective over all ranks, one thread of each. TimedOut: not all came before the deadline; later barriers of the job fail
/// the same way, since nobody can tell any more who is in which. PeerLost: the leader has ended.
Result<> barrier(engine::Node& node);

}  // namespace farpage::sync
