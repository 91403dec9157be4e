// The window: the range of virtual addresses that means the same in every rank, backed in each domain by one sparse memfd
// (file offset = window offset). Agreed at init by all ranks; mapped once; read-only afterwards, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/handle.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/units.hpp"

namespace farpage::memory {

struct WindowChoice {
  uint64_t base = 0;
  uint64_t bytes = 0;
};

/// The candidates in order of preference: the option, or the built-in list (2^45 bytes; under ThreadSanitizer 2^36).
Result<std::vector<WindowChoice>> window_candidates(const std::string& option);
/// Bit i: candidate i is free in this process. All ranks AND their masks; the lowest common bit wins.
uint64_t probe_windows(std::span<const WindowChoice> candidates);

/// Creates the domain's window file, sealed against shrinking and growing.
Result<Fd> create_window_file(uint64_t bytes);

class Window {
 public:
  /// Maps the application view at the agreed address: shared, no reserve, not inherited by fork, not dumped.
  static Result<Window> map(WindowChoice choice, int file);
  Window(Window&& other) noexcept;
  Window& operator=(Window&&) = delete;
  ~Window();

  std::byte* base() const { return reinterpret_cast<std::byte*>(choice_.base); }
  uint64_t bytes() const { return choice_.bytes; }
  bool contains(const void* pointer) const { return reinterpret_cast<uint64_t>(pointer) - choice_.base < choice_.bytes; }
  WindowOffset offset_of(const void* pointer) const { return reinterpret_cast<uint64_t>(pointer) - choice_.base; }
  std::byte* at(WindowOffset offset) const { return base() + offset; }

  /// Makes every access of this process end in SIGSEGV: the leader is lost (watchdog), or the runtime has ended.
  void forbid() const;

 private:
  explicit Window(WindowChoice choice) : choice_(choice) {}
  WindowChoice choice_;
};

}  // namespace farpage::memory
