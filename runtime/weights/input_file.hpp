// A file opened for reading with pread. Errors name the path and the byte. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/handle.hpp"
#include "runtime/base/result.hpp"

namespace farpage::weights {

class InputFile {
 public:
  /// Io: missing, not readable, not a regular file.
  static Result<InputFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

  /// Reads exactly `bytes` from `offset`. Io: the file ended early, or the disk failed; names the byte.
  Result<> read(void* to, uint64_t bytes, uint64_t offset) const;

 private:
  InputFile(std::string path, Fd fd, uint64_t bytes) : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}
  std::string path_;
  Fd fd_;
  uint64_t bytes_;
};

}  // namespace farpage::weights
