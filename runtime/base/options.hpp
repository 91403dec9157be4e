// The options of the runtime: one line in options.def makes the field, the DSM_* variable, the help and docs/tuning.md.
// The only code that calls getenv. Parsed once at init; read-only afterwards, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/base/units.hpp"

namespace farpage {

struct Options {
  using Bytes = uint64_t;
  using Count = uint64_t;
  using Micros = uint64_t;
  using Millis = uint64_t;
  using Flag = bool;
  using Text = std::string;
#define DSM_OPTION(name, type, default_value, help) type name = default_value;
#include "runtime/base/options.def"
#undef DSM_OPTION
};

/// What dsm-info and the generator of docs/tuning.md print.
struct OptionInfo {
  const char* variable;
  const char* type;
  std::string default_value;
  std::string value;
  const char* help;
};

/// Reads DSM_* from `environment` (as in environ). Present but malformed: an error that names variable and value.
/// Unknown DSM_* variables are appended to `unknown`, for a warning.
Result<Options> parse_options(std::span<const char* const> environment, std::vector<std::string>* unknown);
/// The same from the process environment.
Result<Options> options_from_environment(std::vector<std::string>* unknown);

std::vector<OptionInfo> describe_options(const Options& options);

/// A 64-bit digest of the options that all ranks must agree on, and the text to show when they do not.
std::string agreed_options_text(const Options& options);

/// An environment variable that is not an option of ours (launcher, terminal). "" when absent.
std::string foreign_environment(const char* name);

}  // namespace farpage
