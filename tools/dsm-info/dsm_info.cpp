// dsm-info: what a job started from here would run on and with. Alone it describes this machine and a job of one rank;
// under mpirun it opens the runtime as any job does and reports the transport that each pair of domains really uses.
//
//   dsm-info
//   mpirun -np 4 dsm-info
//   DSM_DOMAIN=rank DSM_TRANSPORT=tcp mpirun -np 2 dsm-info
//
// Exit status 1: an option is malformed, or the runtime does not start here; the report says why, on stderr.
#include <sys/utsname.h>

#include <cstdio>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "runtime/base/check.hpp"
#include "tools/dsm-info/sections.hpp"
#include "transport/bootstrap.hpp"
#include "transport/launcher.hpp"

namespace farpage::info {
namespace {

int complain(const Error& failure) {
  std::fflush(stdout);
  fmt::print(stderr, "dsm-info: {}: {}\n", status_name(failure.status), failure.message);
  return 1;
}

// Hosts in the order of their lowest rank, each once. The first line of a section names its host.
Result<> print_hosts(transport::Bootstrap& bootstrap) {
  DSM_ASSIGN(const auto sections, gather_texts(bootstrap, host_section()));
  std::set<std::string> seen;
  for (const std::string& section : sections)
    if (bootstrap.rank().value == 0 && seen.insert(section.substr(0, section.find('\n'))).second)
      fmt::print("{}\n", section);
  return success();
}

Result<> report(const Options& options, const std::vector<std::string>& unknown) {
  DSM_ASSIGN(const auto bootstrap, transport::open_bootstrap(transport::launched_by_mpirun()));
  const bool first = bootstrap->rank().value == 0;
  set_process_name(fmt::format("rank {}", bootstrap->rank().value));
  if (first) fmt::print("{}\n", option_section(options, unknown));
  DSM_TRY(print_hosts(*bootstrap));
  DSM_ASSIGN(const auto node, engine::Node::open(options, *bootstrap));
  auto job = job_section(*node, *bootstrap);
  if (first && job.ok()) fmt::print("{}", *job);
  DSM_TRY(node->close());
  return job.ok() ? success() : Result<>(job.failure());
}

int run(int argc, char** argv) {
  if (argc > 1) {
    const std::string_view argument = argv[1];
    const bool help = argument == "-h" || argument == "--help";
    fmt::print(help ? stdout : stderr,
               "usage: [mpirun -np N] dsm-info\nPrints options, hosts, limits and, under mpirun, the transport between "
               "each pair "
               "of domains.\n");
    return help ? 0 : 2;
  }
  std::vector<std::string> unknown;
  auto options = options_from_environment(&unknown);
  if (!options.ok()) return complain(options.failure());
  const Result<> done = report(*options, unknown);
  return done.ok() ? 0 : complain(done.failure());
}

}  // namespace
}  // namespace farpage::info

int main(int argc, char** argv) { return farpage::info::run(argc, argv); }
