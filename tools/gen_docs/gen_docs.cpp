// gen_docs tuning | counters | protocol: prints docs/tuning.md, docs/counters.md or docs/protocol-tables.md from the
// tables that the code is made from. The tidy test compares the files with this output; after a change of a table:
//   build/release/tools/gen_docs tuning >docs/tuning.md
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "runtime/base/counters.hpp"
#include "runtime/base/options.hpp"
#include "runtime/coherence/agent.hpp"
#include "runtime/coherence/directory.hpp"

namespace farpage {
namespace {

// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string unit(std::string_view type) {
  if (type == "Bytes") return "bytes (suffix K, M, G, T)";
  if (type == "Count") return "number";
  if (type == "Micros") return "microseconds";
  if (type == "Millis") return "milliseconds";
  if (type == "Flag") return "0 or 1";
  return "text";
}

void print_tuning() {
  fmt::print(
      "# Tuning\n\n"
      "Options are environment variables, read once by `dsm_init`. All ranks must agree on them (except `DSM_LOG` and "
      "`DSM_STATS`).\n"
      "A malformed value is an error that names the variable; an unknown `DSM_` variable is a warning. `dsm-info` "
      "prints the values\n"
      "in force and where they come from.\n\n"
      "This file is made from `runtime/base/options.def` by `gen_docs tuning`.\n\n"
      "| variable | unit | default | meaning |\n"
      "| --- | --- | --- | --- |\n");
  for (const OptionInfo& info : describe_options(Options{}))
    fmt::print("| `{}` | {} | `{}` | {} |\n", info.variable, unit(info.type), info.default_value, cell(info.help));
}

void print_counters() {
  fmt::print(
      "# Counters\n\n"
      "One set per domain, read by `dsm_stats` and `dsm_counter` and printed at `dsm_finalize` with `DSM_STATS=1`. "
      "Counters only grow,\n"
      "except those that say \"now\".\n\n"
      "This file is made from `runtime/base/counters.def` by `gen_docs counters`.\n\n"
      "| counter | what it counts |\n"
      "| --- | --- |\n");
  for (uint32_t i = 0; i < kCounters; i++) {
    const CounterInfo& info = counter_info(static_cast<Counter>(i));
    fmt::print("| `{}` | {} |\n", info.name, cell(info.help));
  }
}

// One table a state; rows that a broken invariant alone could reach are left out and counted.
template <class Row, class Action>
void print_states(const Row* rows, uint32_t count, Action impossible) {
  uint32_t left_out = 0;
  for (uint32_t i = 0; i < count; i++) {
    const Row& row = rows[i];
    if (i == 0 || rows[i - 1].in != row.in)
      fmt::print("\n### {}\n\n| on | next | actions |\n| --- | --- | --- |\n", coherence::name(row.in));
    if (row.actions[0] == impossible) {
      left_out++;
      continue;
    }
    std::string actions;
    for (const Action action : row.actions)
      if (action != Action::None) actions += (actions.empty() ? "" : ", ") + std::string(coherence::name(action));
    fmt::print("| {} | {} | {} |\n", coherence::name(row.on), row.next == row.in ? "" : coherence::name(row.next),
               actions);
  }
  fmt::print("\n{} rows; the other {} of {} are impossible and end in a check.\n", count - left_out, left_out, count);
}

void print_protocol() {
  fmt::print(
      "# The tables of the COHERENT protocol\n\n"
      "What each state does on each event, as the runtime, the simulator and the explorer execute it. An empty "
      "\"next\" stays in the\n"
      "state. [protocol.md](protocol.md) explains them.\n\n"
      "This file is made from `runtime/coherence` by `gen_docs protocol`.\n\n"
      "## Directory: a block at its home\n");
  uint32_t count = 0;
  const coherence::DirRow* directory = coherence::directory_rows(count);
  print_states(directory, count, coherence::DirAction::Impossible);
  fmt::print("\n## Agent: a block in a domain\n");
  const coherence::AgentRow* agent = coherence::agent_rows(count);
  print_states(agent, count, coherence::AgentAction::Impossible);
}

}  // namespace
}  // namespace farpage

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "tuning") return farpage::print_tuning(), 0;
  if (what == "counters") return farpage::print_counters(), 0;
  if (what == "protocol") return farpage::print_protocol(), 0;
  fmt::print(stderr, "usage: gen_docs tuning | counters | protocol\n");
  return 2;
}
