#include "runtime/base/log.hpp"

#include <unistd.h>

#include <atomic>

#include "runtime/base/check.hpp"

namespace farpage {
namespace {
std::atomic<LogLevel> level_now{LogLevel::Warn};

const char* prefix(LogLevel level) {
  switch (level) {
    case LogLevel::Error: return "error: ";
    case LogLevel::Warn: return "warning: ";
    case LogLevel::Info: return "";
    case LogLevel::Debug: return "debug: ";
  }
  return "";
}
}  // namespace

void set_log_level(LogLevel level) { level_now = level; }
LogLevel log_level() { return level_now.load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view message) {
  // One write per line: lines of several ranks do not mix.
  const std::string line = fmt::format("{}: {}{}\n", process_name(), prefix(level), message);
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace farpage
