// Makes safetensors files for tests, right and wrong ones, and folders that vanish with the test.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace farpage::weights::testing {

/// Length, header, `data_bytes` of data whose byte i is data_byte(i).
inline char data_byte(uint64_t i) { return static_cast<char>((i * 2654435761u) >> 13); }

inline std::string safetensors_file(std::string_view header, uint64_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; i++) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  file += header;
  for (uint64_t i = 0; i < data_bytes; i++) file += data_byte(i);
  return file;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "farpage-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::string path_;
};

}  // namespace farpage::weights::testing
