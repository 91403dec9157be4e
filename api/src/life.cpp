// dsm_init, dsm_finalize and who is who.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "api/src/runtime.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/event_ring.hpp"
#include "runtime/base/log.hpp"
#include "runtime/memory/fault_report.hpp"
#include "runtime/sync/barrier.hpp"
#include "transport/launcher.hpp"

namespace farpage::api {
namespace {

static_assert(static_cast<int>(Status::Internal) == DSM_ERR_INTERNAL && static_cast<int>(Status::Io) == DSM_ERR_IO &&
              static_cast<int>(Status::Freed) == DSM_ERR_FREED && static_cast<int>(Status::TimedOut) == DSM_ERR_TIMED_OUT &&
              static_cast<int>(Status::Mismatch) == DSM_ERR_MISMATCH && static_cast<int>(Status::Busy) == DSM_ERR_BUSY);

constexpr const char* kVersion = "0.1.0";
static_assert(DSM_VERSION_MAJOR == 0 && DSM_VERSION_MINOR == 1 && DSM_VERSION_PATCH == 0);

// Version and options of all ranks must agree; the error is the same on all, and names two ranks that differ.
Result<> agree_on_options(const Options& options, transport::Bootstrap& bootstrap) {
  const std::string mine = fmt::format("version={}\nabi={}\n{}", kVersion, DSM_ABI_VERSION, agreed_options_text(options));
  auto all = bootstrap.all_gather(std::as_bytes(std::span(mine)));
  if (!all.ok()) return all.failure();
  const auto text = [&](size_t rank) {
    const auto& bytes = (*all)[rank];
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const std::string first = text(0);
  for (size_t rank = 1; rank < all->size(); rank++) {
    const std::string other = text(rank);
    if (other == first) continue;
    size_t a = 0, b = 0;
    while (a < first.size() && b < other.size()) {
      const std::string line_a = first.substr(a, first.find('\n', a) - a), line_b = other.substr(b, other.find('\n', b) - b);
      if (line_a != line_b) return error(Status::Mismatch, "ranks disagree: rank 0 has {}, rank {} has {}", line_a, rank, line_b);
      a += line_a.size() + 1, b += line_b.size() + 1;
    }
    return error(Status::Mismatch, "ranks 0 and {} are of different versions", rank);
  }
  return success();
}

// What fails on one rank ends dsm_init on all of them, with that rank's sentence.
Result<> agree(const Result<>& mine, transport::Bootstrap& bootstrap) {
  std::string text;
  if (!mine.ok()) text = fmt::format("{} {}", static_cast<int>(mine.status()), mine.failure().message);
  auto all = bootstrap.all_gather(std::as_bytes(std::span(text)));
  if (!mine.ok()) return mine;
  if (!all.ok()) return all.failure();
  for (size_t rank = 0; rank < all->size(); rank++) {
    const auto& bytes = (*all)[rank];
    const std::string failure(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (failure.empty()) continue;
    return error(static_cast<Status>(std::atoi(failure.c_str())), "rank {}: {}", rank, failure.substr(failure.find(' ') + 1));
  }
  return success();
}

Result<> check_params(const dsm_params_t* params) {
  if (params == nullptr) return success();
  if (params->struct_size < sizeof(dsm_params_t))
    return error(Status::InvalidArgument, "dsm_params_t of {} bytes: fill it with DSM_PARAMS_INIT", params->struct_size);
  if (params->abi_version != DSM_ABI_VERSION)
    return error(Status::InvalidArgument, "the program was built for ABI {}, the library has ABI {}", params->abi_version, DSM_ABI_VERSION);
  return success();
}

Result<> start_watchdog(Runtime& runtime) {
  engine::Node& node = *runtime.node;
  const engine::JobShape& shape = node.shape();
  if (shape.leader()) return success();
  DSM_ASSIGN(runtime.watchdog,
             membership::Watchdog::start({node.window(), node.segment(), node.fault_descriptor(), node.leader_connection(), node.leader_pid(),
                                          shape.leader_of[shape.domain.value], runtime.options.heartbeat}));
  return success();
}

void dump_events() { event_ring().dump(STDERR_FILENO, 40); }

Result<> init(const dsm_params_t* params) {
  if (current() != nullptr) return error(Status::AlreadyInitialized, "dsm_init has been called already");
  auto runtime = std::make_unique<Runtime>();
  DSM_ASSIGN(runtime->bootstrap, transport::open_bootstrap(transport::launched_by_mpirun()));
  set_process_name(fmt::format("farpage: rank {}", runtime->bootstrap->rank().value));
  std::vector<std::string> unknown;
  auto parsed = options_from_environment(&unknown);
  const Result<> valid = check_params(params);
  DSM_TRY(agree(!valid.ok() || parsed.ok() ? valid : Result<>(parsed.failure()), *runtime->bootstrap));
  runtime->options = *parsed;
  set_log_level(static_cast<LogLevel>(runtime->options.log));
  if (runtime->bootstrap->rank() == RankId{0})
    for (const std::string& name : unknown) log_warn("unknown option {} is ignored (dsm-info lists the options)", name);
  DSM_TRY(agree_on_options(runtime->options, *runtime->bootstrap));
  set_fatal_hook(dump_events);
  DSM_ASSIGN(runtime->node, engine::Node::open(runtime->options, *runtime->bootstrap));
  engine::Node& node = *runtime->node;
  const engine::JobShape& shape = node.shape();
  memory::install_fault_report(node.window(), node.segment(), node.regions(), shape.rank, shape.slot);
  runtime->heap = std::make_unique<Heap>(node);
  if (const Result<> all = agree(start_watchdog(*runtime), *runtime->bootstrap); !all.ok()) {
    runtime->watchdog.reset();
    (void)node.close();
    memory::remove_fault_report();
    return all;
  }
  set_current(std::move(runtime));
  return success();
}

void print_stats(const engine::Node& node) {
  std::string text = fmt::format("farpage: domain {}:", node.shape().domain.value);
  for (uint32_t i = 0; i < kCounters; i++) {
    const auto counter = static_cast<Counter>(i);
    if (const uint64_t value = node.counters().get(counter)) text += fmt::format(" {}={}", counter_info(counter).name, value);
  }
  text += '\n';
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

Result<> finalize() {
  DSM_ASSIGN(Runtime * runtime, entry());
  const Result<> met = sync::barrier(*runtime->node);
  if (runtime->options.stats && runtime->node->shape().leader()) print_stats(*runtime->node);
  runtime->watchdog.reset();
  const Result<> closed = runtime->node->close();
  memory::remove_fault_report();
  set_current(nullptr);
  return met.ok() ? closed : met;
}

}  // namespace
}  // namespace farpage::api

using namespace farpage;
using namespace farpage::api;

extern "C" {

dsm_status_t dsm_init(const dsm_params_t* params) {
  return guarded([&] { return init(params); });
}

dsm_status_t dsm_finalize(void) { return guarded(finalize); }

int dsm_rank(void) {
  const Runtime* runtime = current();
  return runtime == nullptr ? -1 : runtime->node->shape().rank.value;
}
int dsm_size(void) {
  const Runtime* runtime = current();
  return runtime == nullptr ? -1 : static_cast<int>(runtime->node->shape().ranks);
}
int dsm_domain(void) {
  const Runtime* runtime = current();
  return runtime == nullptr ? -1 : runtime->node->shape().domain.value;
}
int dsm_domains(void) {
  const Runtime* runtime = current();
  return runtime == nullptr ? -1 : static_cast<int>(runtime->node->shape().domains);
}
int dsm_domain_of(int rank) {
  const Runtime* runtime = current();
  if (runtime == nullptr || rank < 0 || static_cast<uint32_t>(rank) >= runtime->node->shape().ranks) return -1;
  return runtime->node->shape().domain_of[static_cast<size_t>(rank)].value;
}

void dsm_abort(int exit_code, const char* message) {
  log_error("aborted: {}", message == nullptr ? "no reason given" : message);
  // mpirun ends all ranks when one ends without MPI_Finalize.
  std::_Exit(exit_code == 0 ? 1 : exit_code);
}

const char* dsm_strerror(dsm_status_t status) { return status_name(static_cast<Status>(status)); }
const char* dsm_last_error(void) { return last_error(); }
const char* dsm_version(void) { return kVersion; }

}  // extern "C"
