#include "runtime/base/options.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

namespace farpage {
namespace {

struct ParsedNumber {
  uint64_t value;
  std::string_view rest;
};

bool parse_number(std::string_view text, ParsedNumber& out) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end == text.data()) return false;
  out = {value, text.substr(static_cast<size_t>(end - text.data()))};
  return true;
}

// One parser a type; false: malformed.
bool parse_Bytes(std::string_view text, uint64_t& out) {
  ParsedNumber number;
  if (!parse_number(text, number)) return false;
  std::string_view suffix = number.rest;
  uint32_t shift = 0;
  if (!suffix.empty()) {
    switch (std::toupper(static_cast<unsigned char>(suffix[0]))) {
      case 'K': shift = 10; break;
      case 'M': shift = 20; break;
      case 'G': shift = 30; break;
      case 'T': shift = 40; break;
      default: return false;
    }
    suffix.remove_prefix(1);
    if (!suffix.empty() && suffix != "B" && suffix != "iB") return false;
  }
  if (shift != 0 && number.value > (std::numeric_limits<uint64_t>::max() >> shift)) return false;
  out = number.value << shift;
  return true;
}

bool parse_with_suffix(std::string_view text, std::string_view suffix, uint64_t& out) {
  ParsedNumber number;
  if (!parse_number(text, number) || !(number.rest.empty() || number.rest == suffix)) return false;
  out = number.value;
  return true;
}
bool parse_Count(std::string_view text, uint64_t& out) { return parse_with_suffix(text, "", out); }
bool parse_Micros(std::string_view text, uint64_t& out) { return parse_with_suffix(text, "us", out); }
bool parse_Millis(std::string_view text, uint64_t& out) { return parse_with_suffix(text, "ms", out); }
bool parse_Flag(std::string_view text, bool& out) {
  if (text == "1" || text == "yes" || text == "true" || text == "on") return out = true, true;
  if (text == "0" || text == "no" || text == "false" || text == "off") return out = false, true;
  return false;
}
bool parse_Text(std::string_view text, std::string& out) {
  if (text.empty()) return false;
  out = text;
  return true;
}

const char* expectation(std::string_view type) {
  if (type == "Bytes") return "a number of bytes, such as 64K, 16M or 1G";
  if (type == "Count") return "a whole number";
  if (type == "Micros") return "a whole number of microseconds";
  if (type == "Millis") return "a whole number of milliseconds";
  if (type == "Flag") return "0 or 1";
  return "a text that is not empty";
}

std::string variable_name(std::string_view option) {
  std::string variable = "DSM_";
  for (char c : option) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

std::string text_of(uint64_t value) { return fmt::format("{}", value); }
std::string text_of(bool value) { return value ? "1" : "0"; }
std::string text_of(const std::string& value) { return value; }

std::string bytes_text(uint64_t value) {
  const char* suffix = "";
  for (const char* next : {"K", "M", "G"}) {
    if (value == 0 || value % 1024 != 0) break;
    value /= 1024;
    suffix = next;
  }
  return fmt::format("{}{}", value, suffix);
}

template <class T>
std::string option_text(std::string_view type, const T& value) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (type == "Bytes") return bytes_text(value);
  }
  return text_of(value);
}

// Limits that the types do not express.
Result<> check_ranges(const Options& options) {
  const auto block = [](const char* variable, uint64_t bytes) -> Result<> {
    if (!is_power_of_two(bytes) || bytes < kPageBytes || bytes > kMaxBlockBytes)
      return error(Status::InvalidArgument, "{}={}: must be a power of two from 4K to 2M", variable, bytes);
    return success();
  };
  DSM_TRY(block("DSM_COHERENT_BLOCK_BYTES", options.coherent_block_bytes));
  DSM_TRY(block("DSM_IMMUTABLE_BLOCK_BYTES", options.immutable_block_bytes));
  if (options.cache_bytes < 64_KiB)
    return error(Status::InvalidArgument, "DSM_CACHE_BYTES={}: must be at least 64K", options.cache_bytes);
  if (options.cache_bytes < 8 * std::max(options.coherent_block_bytes, options.immutable_block_bytes))
    return error(Status::InvalidArgument, "DSM_CACHE_BYTES={}: must hold at least 8 blocks of {} bytes", options.cache_bytes,
                 std::max(options.coherent_block_bytes, options.immutable_block_bytes));
  if (options.fault_timeout < 100)
    return error(Status::InvalidArgument, "DSM_FAULT_TIMEOUT={}: must be at least 100 ms (a fork may stall a domain that long)",
                 options.fault_timeout);
  if (options.init_timeout < 100)
    return error(Status::InvalidArgument, "DSM_INIT_TIMEOUT={}: must be at least 100 ms", options.init_timeout);
  if (options.heartbeat < 10)
    return error(Status::InvalidArgument, "DSM_HEARTBEAT={}: must be at least 10 ms", options.heartbeat);
  if (options.hold_max < options.hold)
    return error(Status::InvalidArgument, "DSM_HOLD_MAX={}: must not be below DSM_HOLD={}", options.hold_max, options.hold);
  if (options.log > 3) return error(Status::InvalidArgument, "DSM_LOG={}: must be 0 to 3", options.log);
  if (options.stream_blocks > 1024)
    return error(Status::InvalidArgument, "DSM_STREAM_BLOCKS={}: must be at most 1024", options.stream_blocks);
  if (options.transport != "auto" && options.transport != "shm" && options.transport != "tcp")
    return error(Status::InvalidArgument, "DSM_TRANSPORT={}: must be auto, shm or tcp", options.transport);
  uint64_t group = 0;
  if (options.domain != "host" && options.domain != "rank" && (!parse_Count(options.domain, group) || group == 0))
    return error(Status::InvalidArgument, "DSM_DOMAIN={}: must be host, rank, or a number of ranks", options.domain);
  return success();
}

}  // namespace

Result<Options> parse_options(std::span<const char* const> environment, std::vector<std::string>* unknown) {
  Options options;
  for (const char* entry : environment) {
    const std::string_view line(entry);
    if (!line.starts_with("DSM_")) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view variable = line.substr(0, equals), value = line.substr(equals + 1);
    bool known = false;
#define DSM_OPTION(name, type, default_value, help)                                                          \
  if (!known && variable == variable_name(#name)) {                                                          \
    known = true;                                                                                            \
    if (!parse_##type(value, options.name))                                                                  \
      return error(Status::InvalidArgument, "{}={}: must be {}", variable, value, expectation(#type));       \
  }
#include "runtime/base/options.def"
#undef DSM_OPTION
    if (!known && unknown != nullptr) unknown->emplace_back(variable);
  }
  DSM_TRY(check_ranges(options));
  return options;
}

Result<Options> options_from_environment(std::vector<std::string>* unknown) {
  size_t count = 0;
  while (environ[count] != nullptr) count++;
  return parse_options({environ, count}, unknown);
}

std::vector<OptionInfo> describe_options(const Options& options) {
  const Options defaults;
  static const std::vector<std::string> kVariables = {
#define DSM_OPTION(name, type, default_value, help) variable_name(#name),
#include "runtime/base/options.def"
#undef DSM_OPTION
  };
  std::vector<OptionInfo> infos;
#define DSM_OPTION(name, type, default_value, help)                                                \
  infos.push_back({kVariables[infos.size()].c_str(), #type, option_text(#type, defaults.name), option_text(#type, options.name), help});
#include "runtime/base/options.def"
#undef DSM_OPTION
  return infos;
}

std::string agreed_options_text(const Options& options) {
  std::string text;
  for (const OptionInfo& info : describe_options(options)) {
    if (std::string_view(info.variable) == "DSM_LOG" || std::string_view(info.variable) == "DSM_STATS") continue;
    text += fmt::format("{}={}\n", info.variable, info.value);
  }
  return text;
}

std::string foreign_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace farpage
