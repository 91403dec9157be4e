#include <fmt/format.h>

#include "tools/dsm-info/sections.hpp"

namespace farpage::info {

std::string option_section(const Options& options, const std::vector<std::string>& unknown) {
  std::string text = "options (environment; docs/tuning.md)\n";
  for (const OptionInfo& option : describe_options(options)) {
    const bool set = !foreign_environment(option.variable).empty();
    text += fmt::format("  {:<28} {:<10} {}\n", option.variable, option.value,
                        set ? fmt::format("from the environment (default {})", option.default_value) : "default");
  }
  for (const std::string& variable : unknown) text += fmt::format("  {:<28} unknown, ignored\n", variable);
  return text;
}

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); unit++) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string mechanism_text(const memory::FaultMechanism& mechanism) {
  return mechanism.full_userfaultfd ? mechanism.description
                                    : fmt::format("none, so one domain only: {}", mechanism.description);
}

}  // namespace farpage::info
