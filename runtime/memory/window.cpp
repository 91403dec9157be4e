#include "runtime/memory/window.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

namespace farpage::memory {
namespace {

#if defined(__SANITIZE_THREAD__)
// The only hint that ThreadSanitizer's own mappings leave free.
constexpr uint64_t kBytes = uint64_t{1} << 36;
constexpr uint64_t kHints[] = {0x40'0000'0000};
#else
constexpr uint64_t kBytes = uint64_t{1} << 45;
constexpr uint64_t kHints[] = {0x2000'0000'0000, 0x1000'0000'0000, 0x3000'0000'0000, 0x0800'0000'0000};
#endif

}  // namespace

Result<std::vector<WindowChoice>> window_candidates(const std::string& option) {
  std::vector<WindowChoice> candidates;
  if (option == "auto") {
    for (const uint64_t hint : kHints) candidates.push_back({hint, kBytes});
#if !defined(__SANITIZE_THREAD__)
    // Where the address space is limited: smaller windows at the same places.
    for (const uint64_t hint : kHints) candidates.push_back({hint, uint64_t{1} << 40});
    for (const uint64_t hint : kHints) candidates.push_back({hint, uint64_t{1} << 37});
#endif
    return candidates;
  }
  uint64_t base = 0;
  const char* begin = option.c_str() + (option.starts_with("0x") ? 2 : 0);
  const char* end = option.c_str() + option.size();
  const auto [stop, failure] = std::from_chars(begin, end, base, 16);
  if (failure != std::errc{} || stop != end || base % kRunBytes != 0 || base == 0 || base >= uint64_t{1} << 47)
    return error(Status::InvalidArgument, "DSM_WINDOW={}: must be auto, or a hexadecimal address below 2^47, a multiple of 2 MiB", option);
  for (const uint64_t bytes : {kBytes, uint64_t{1} << 40, uint64_t{1} << 37})
    if (base + bytes <= uint64_t{1} << 47) candidates.push_back({base, bytes});
  return candidates;
}

uint64_t probe_windows(std::span<const WindowChoice> candidates) {
  uint64_t mask = 0;
  for (size_t i = 0; i < candidates.size() && i < 64; i++) {
    void* wanted = reinterpret_cast<void*>(candidates[i].base);
    void* got = ::mmap(wanted, candidates[i].bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) continue;
    // The leader maps the file a second time, anywhere: a sanitizer's shadow may leave room for one mapping but not for two.
    void* view = ::mmap(nullptr, candidates[i].bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == wanted && view != MAP_FAILED) mask |= uint64_t{1} << i;
    if (view != MAP_FAILED) ::munmap(view, candidates[i].bytes);
    ::munmap(got, candidates[i].bytes);
  }
  return mask;
}

Result<Fd> create_window_file(uint64_t bytes) {
  Fd file(::memfd_create("farpage-window", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return error(Status::OutOfMemory, "memfd_create: {}", std::strerror(errno));
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return error(Status::OutOfMemory, "window file of {} bytes: {}", bytes, std::strerror(errno));
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return error(Status::Internal, "sealing the window file: {}", std::strerror(errno));
  return file;
}

Result<Window> Window::map(WindowChoice choice, int file) {
  void* wanted = reinterpret_cast<void*>(choice.base);
  void* got = ::mmap(wanted, choice.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
  if (got != wanted) return error(Status::OutOfMemory, "mapping the window at 0x{:x}: {}", choice.base, std::strerror(errno));
  // A child would read zeros and create pages for everybody; a core file would fetch everything.
  ::madvise(got, choice.bytes, MADV_DONTFORK);
  ::madvise(got, choice.bytes, MADV_DONTDUMP);
  ::madvise(got, choice.bytes, MADV_NOHUGEPAGE);
  return Window(choice);
}

Window::Window(Window&& other) noexcept : choice_(std::exchange(other.choice_, {})) {}

Window::~Window() {
  if (choice_.bytes != 0) ::munmap(base(), choice_.bytes);
}

void Window::forbid() const { ::mprotect(base(), choice_.bytes, PROT_NONE); }

}  // namespace farpage::memory
