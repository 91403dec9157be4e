// DSM_CHECK: a broken invariant of the runtime ends the process with one line and the event ring. On in release builds;
// one condition each. fatal() is the same end for conditions that no caller can handle (class `job`).
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace farpage {

/// Called once before the process ends by a check or fatal(); dumps the event ring. Must not allocate global memory.
void set_fatal_hook(void (*hook)());

/// "rank N" in front of messages; set once at init.
void set_process_name(std::string_view name);
std::string_view process_name();

[[noreturn]] void fatal_message(std::string_view message);
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view detail);

template <class... Args>
[[noreturn]] void fatal(fmt::format_string<Args...> format, Args&&... args) {
  fatal_message(fmt::format(format, std::forward<Args>(args)...));
}

namespace internal {
inline std::string check_detail() { return {}; }
template <class... Args>
std::string check_detail(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}
}  // namespace internal
}  // namespace farpage

#define DSM_CHECK(condition, ...)                                                             \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::farpage::check_failed(__FILE__, __LINE__, #condition, ::farpage::internal::check_detail(__VA_ARGS__)); \
  } while (0)
