// Who is where: ranks, domains, leaders. Made once at init from what all ranks gathered; read-only afterwards, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"

namespace farpage::engine {

struct JobShape {
  RankId rank;
  uint32_t ranks = 1;
  AgentId domain;
  uint32_t domains = 1;
  RankSlot slot = 0;                   // of this rank in its domain; the leader is slot 0
  uint32_t ranks_here = 1;             // in this domain
  bool one_host = true;                // all ranks of the job
  std::vector<AgentId> domain_of;      // by rank
  std::vector<RankSlot> slot_of;       // by rank
  std::vector<RankId> leader_of;       // by domain
  std::vector<uint32_t> host_of_domain;

  bool leader() const { return slot == 0; }
};

/// `hosts[rank]` identifies the machine of each rank; `option` is DSM_DOMAIN.
Result<JobShape> make_job_shape(RankId rank, const std::vector<std::string>& hosts, const std::string& option);

}  // namespace farpage::engine
