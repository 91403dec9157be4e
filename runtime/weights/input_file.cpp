#include "runtime/weights/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/units.hpp"

namespace farpage::weights {

Result<InputFile> InputFile::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return error(Status::Io, "{}: {}", path, std::strerror(errno));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return error(Status::Io, "{}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return error(Status::Io, "{}: not a regular file", path);
  return InputFile(path, std::move(fd), static_cast<uint64_t>(status.st_size));
}

Result<> InputFile::read(void* to, uint64_t bytes, uint64_t offset) const {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    // The kernel moves at most 2 GiB less a page in one call.
    const ssize_t got = ::pread(fd_.get(), at, std::min<uint64_t>(bytes, 1_GiB), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error(Status::Io, "{}: byte {}: {}", path_, offset, std::strerror(errno));
    if (got == 0)
      return error(Status::Io, "{}: cut short: ends at byte {}, {} more bytes were expected", path_, offset, bytes);
    at += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return success();
}

}  // namespace farpage::weights
