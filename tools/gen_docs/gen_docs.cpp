// gen_docs tuning | counters: prints docs/tuning.md or docs/counters.md from the tables that the code is made from. The
// tidy test compares the files with this output; after a change of a table:
//   build/release/tools/gen_docs tuning >docs/tuning.md
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "runtime/base/counters.hpp"
#include "runtime/base/options.hpp"

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

}  // namespace
}  // namespace farpage

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "tuning") return farpage::print_tuning(), 0;
  if (what == "counters") return farpage::print_counters(), 0;
  fmt::print(stderr, "usage: gen_docs tuning | counters\n");
  return 2;
}
