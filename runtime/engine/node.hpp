// Node: one rank of the job as the layers above see it: window, shared state, and the calls to its domain's lane. Opened and
// closed collectively by dsm_init and dsm_finalize; in between any thread may use it. Owns the lane when this rank leads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/counters.hpp"
#include "runtime/base/options.hpp"
#include "runtime/engine/job_shape.hpp"
#include "runtime/memory/page_tables.hpp"
#include "runtime/memory/region.hpp"
#include "runtime/memory/region_table.hpp"
#include "runtime/memory/state_segment.hpp"
#include "runtime/memory/window.hpp"
#include "transport/bootstrap.hpp"
#include "transport/transport.hpp"

namespace farpage::engine {

class Node {
 public:
  /// Collective. `bootstrap` outlives the node.
  static Result<std::unique_ptr<Node>> open(const Options& options, transport::Bootstrap& bootstrap);
  virtual ~Node() = default;
  /// Collective; afterwards the window is forbidden. The object stays valid for queries of its shape.
  virtual Result<> close() = 0;

  virtual const Options& options() const = 0;
  virtual const JobShape& shape() const = 0;
  virtual const memory::Window& window() const = 0;
  virtual const memory::StateSegment& segment() const = 0;
  virtual const memory::RegionTable& regions() const = 0;
  virtual const memory::FaultMechanism& mechanism() const = 0;
  /// For the watchdog of a rank that does not lead: its own userfaultfd (-1: none), the connection to its leader, its pid.
  virtual int fault_descriptor() const = 0;
  virtual int leader_connection() const = 0;
  virtual int32_t leader_pid() const = 0;
  Counters& counters() const { return segment().counters(); }

  /// The part of the window that this rank's allocator hands out.
  virtual memory::Range arena(RankId rank) const = 0;
  /// The rank in whose arena an offset lies; kNoRank for the upper half.
  virtual RankId arena_owner(WindowOffset at) const = 0;

  /// The live region that holds `at`; asks its owner when this domain has not seen it. OutOfRange (no region, or beyond its
  /// end), Freed, TimedOut.
  virtual Result<memory::RegionDescriptor*> resolve(WindowOffset at) = 0;
  /// Enters a region of this rank's arena; asks other home domains to reserve memory (no message when all homes are here).
  /// OutOfMemory: names the domain and its limit; nothing is left behind.
  virtual Result<memory::RegionDescriptor*> create_region(const memory::RegionDescriptor& descriptor) = 0;
  /// Ends a region everywhere; its range comes back by the owner's mailbox, or is given back here when this rank owns it:
  /// always by the mailbox.
  virtual Result<> free_region(WindowOffset region) = 0;
  /// Sends the free of a small object to the rank that owns its slab.
  virtual Result<> free_object(WindowOffset object) = 0;
  virtual Result<> publish(WindowOffset region) = 0;
  virtual Result<> prefetch(memory::Range range) = 0;
  /// This domain has arrived at the job's barrier; returns when all domains have. One thread of the domain at a time.
  virtual Result<> domain_barrier() = 0;

  /// Leaders: the transport's view. Others: empty.
  virtual std::vector<transport::PeerInfo> peers() const = 0;
  virtual std::string transport_text() const = 0;
};

}  // namespace farpage::engine
