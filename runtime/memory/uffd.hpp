// userfaultfd as the kernel has it. Debian 12's headers are from Linux 6.1 and lack POISON and CONTINUE with write
// protection; the numbers are kernel ABI, so they are declared here. Thin wrappers: 0 or -errno.
#pragma once

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdint>

namespace farpage::memory::uffd {

inline constexpr uint64_t kFeaturePoison = 1ull << 14;
inline constexpr uint64_t kContinueModeWp = 1ull << 1;

struct PoisonArgument {
  uffdio_range range;
  uint64_t mode;
  int64_t updated;
};
inline constexpr unsigned long kPoison = _IOWR(0xAA, 0x08, PoisonArgument);

struct ContinueArgument {
  uffdio_range range;
  uint64_t mode;
  int64_t mapped;
};

inline int result_of(int ioctl_result) { return ioctl_result == 0 ? 0 : -errno; }

/// `copied`: bytes done (and mapped, and their waiters woken), also with -EAGAIN.
inline int copy(int fd, uint64_t to, const void* from, uint64_t bytes, bool write_protect, uint64_t& copied) {
  uffdio_copy argument{};
  argument.dst = to;
  argument.src = reinterpret_cast<uint64_t>(from);
  argument.len = bytes;
  argument.mode = write_protect ? static_cast<uint64_t>(UFFDIO_COPY_MODE_WP) : 0;
  const int result = result_of(ioctl(fd, UFFDIO_COPY, &argument));
  copied = argument.copy > 0 ? static_cast<uint64_t>(argument.copy) : 0;
  return result;
}

/// `mapped`: bytes done, also with -EAGAIN.
inline int map_existing(int fd, uint64_t at, uint64_t bytes, bool write_protect, uint64_t& mapped) {
  ContinueArgument argument{{at, bytes}, write_protect ? kContinueModeWp : 0, 0};
  const int result = result_of(ioctl(fd, UFFDIO_CONTINUE, &argument));
  mapped = argument.mapped > 0 ? static_cast<uint64_t>(argument.mapped) : 0;
  return result;
}

inline int protect(int fd, uint64_t at, uint64_t bytes, bool on) {
  uffdio_writeprotect argument{};
  argument.range = {at, bytes};
  argument.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  return result_of(ioctl(fd, UFFDIO_WRITEPROTECT, &argument));
}

inline int wake(int fd, uint64_t at, uint64_t bytes) {
  uffdio_range argument{at, bytes};
  return result_of(ioctl(fd, UFFDIO_WAKE, &argument));
}

/// `poisoned`: bytes done, also with -EAGAIN.
inline int poison(int fd, uint64_t at, uint64_t bytes, uint64_t& poisoned) {
  PoisonArgument argument{{at, bytes}, 0, 0};
  const int result = result_of(ioctl(fd, kPoison, &argument));
  poisoned = argument.updated > 0 ? static_cast<uint64_t>(argument.updated) : 0;
  return result;
}

inline int enroll(int fd, uint64_t at, uint64_t bytes) {
  uffdio_register argument{};
  argument.range = {at, bytes};
  argument.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
  return result_of(ioctl(fd, UFFDIO_REGISTER, &argument));
}

inline int withdraw(int fd, uint64_t at, uint64_t bytes) {
  uffdio_range argument{at, bytes};
  return result_of(ioctl(fd, UFFDIO_UNREGISTER, &argument));
}

}  // namespace farpage::memory::uffd
