// What the parts of a lane share. Made once by the lane, outlives its parts. One thread.
#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/counters.hpp"
#include "runtime/base/options.hpp"
#include "runtime/engine/block_pool.hpp"
#include "runtime/engine/job_shape.hpp"
#include "runtime/memory/page_tables.hpp"
#include "runtime/memory/region_table.hpp"
#include "runtime/memory/state_segment.hpp"
#include "transport/transport.hpp"

namespace farpage::engine {

struct LaneContext {
  const Options& options;
  const JobShape& shape;
  const memory::StateSegment& segment;
  const memory::RegionTable& regions;
  memory::PageTables& pages;
  transport::Transport* transport;  // nullptr: one domain
  const Clock& clock;
  uint64_t arena_bytes;

  Counters& counters() const { return segment.counters(); }
  AgentId self() const { return shape.domain; }
  AgentId domain_of(RankId rank) const { return shape.domain_of[rank.value]; }
  bool alone() const { return shape.domains == 1; }
};

}  // namespace farpage::engine
