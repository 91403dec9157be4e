#include "runtime/base/check.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace farpage {
namespace {
std::atomic<void (*)()> fatal_hook{nullptr};
std::atomic<bool> ending{false};
char name_buffer[48] = "farpage";

[[noreturn]] void end_process(std::string_view text) {
  // write(2), not stdio: the failing thread may hold a stdio lock.
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  if (!ending.exchange(true)) {
    if (auto hook = fatal_hook.load()) hook();
  }
  std::abort();
}
}  // namespace

void set_fatal_hook(void (*hook)()) { fatal_hook = hook; }

void set_process_name(std::string_view name) {
  const size_t length = name.size() < sizeof name_buffer - 1 ? name.size() : sizeof name_buffer - 1;
  std::memcpy(name_buffer, name.data(), length);
  name_buffer[length] = 0;
}

std::string_view process_name() { return name_buffer; }

void fatal_message(std::string_view message) { end_process(fmt::format("{}: fatal: {}\n", process_name(), message)); }

void check_failed(const char* file, int line, const char* condition, std::string_view detail) {
  end_process(fmt::format("{}: check failed at {}:{}: {}{}{}\n", process_name(), file, line, condition,
                          detail.empty() ? "" : ": ", detail));
}

}  // namespace farpage
