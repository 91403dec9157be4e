// The parts of dsm-info's report, each as text of whole lines. The host part describes the machine of the calling
// process and needs no job; the job part needs an open node.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/options.hpp"
#include "runtime/base/result.hpp"
#include "runtime/engine/node.hpp"
#include "transport/bootstrap.hpp"

namespace farpage::info {

/// Options with their values and where these come from.
std::string option_section(const Options& options, const std::vector<std::string>& unknown);

/// Topology, GPUs, page fault mechanism, limits of this process.
std::string host_section();

/// Ranks and domains, versions of what was loaded, the transport of each pair of domains, budgets. Collective; the text
/// is complete on rank 0 only.
Result<std::string> job_section(engine::Node& node, transport::Bootstrap& bootstrap);

/// Collective: every rank's text, in rank order.
Result<std::vector<std::string>> gather_texts(transport::Bootstrap& bootstrap, const std::string& mine);

/// How page faults are served, or why not.
std::string mechanism_text(const memory::FaultMechanism& mechanism);

/// "16.0 MiB"
std::string bytes_text(uint64_t bytes);

}  // namespace farpage::info
