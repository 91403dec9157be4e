#include "runtime/engine/job_shape.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace farpage::engine {

Result<JobShape> make_job_shape(RankId rank, const std::vector<std::string>& hosts, const std::string& option) {
  const uint32_t ranks = static_cast<uint32_t>(hosts.size());
  if (ranks > kMaxRanks) return error(Status::Unsupported, "{} ranks: this version serves at most {}", ranks, kMaxRanks);
  uint32_t group = kMaxRanksPerDomain;
  if (option == "rank") {
    group = 1;
  } else if (option != "host") {
    const auto [end, failure] = std::from_chars(option.data(), option.data() + option.size(), group);
    if (failure != std::errc{} || *end != 0 || group == 0)
      return error(Status::InvalidArgument, "DSM_DOMAIN={}: must be host, rank, or a number of ranks", option);
    group = std::min(group, kMaxRanksPerDomain);
  }

  JobShape shape;
  shape.rank = rank;
  shape.ranks = ranks;
  std::map<std::string, uint32_t> host_index;
  struct Open {
    uint16_t domain;
    uint32_t members;
  };
  std::map<uint32_t, Open> open;  // by host: the domain that still takes ranks
  std::vector<uint32_t> members;
  for (uint32_t r = 0; r < ranks; r++) {
    const uint32_t host = host_index.try_emplace(hosts[r], static_cast<uint32_t>(host_index.size())).first->second;
    auto found = open.find(host);
    if (found == open.end() || found->second.members == group) {
      const auto domain = static_cast<uint16_t>(shape.leader_of.size());
      open[host] = {domain, 0};
      found = open.find(host);
      shape.leader_of.push_back(RankId{static_cast<uint16_t>(r)});
      shape.host_of_domain.push_back(host);
      members.push_back(0);
    }
    shape.domain_of.push_back(AgentId{found->second.domain});
    shape.slot_of.push_back(found->second.members++);
    members[found->second.domain]++;
  }
  shape.domains = static_cast<uint32_t>(shape.leader_of.size());
  if (shape.domains > kMaxDomains)
    return error(Status::Unsupported, "{} domains: this version serves at most {}", shape.domains, kMaxDomains);
  shape.one_host = host_index.size() == 1;
  shape.domain = shape.domain_of[rank.value];
  shape.slot = shape.slot_of[rank.value];
  shape.ranks_here = members[shape.domain.value];
  return shape;
}

}  // namespace farpage::engine
