// The safetensors format: 8 bytes of header length, a JSON header that names tensors, their data. parse_header() treats
// the header as hostile: whatever it accepts has unique names, sizes that agree with dtype and shape, and data that
// cover the data section exactly once, from its first byte to the file's last. Pure: no file is touched; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace farpage::weights {

/// The same order as dsm_dtype_t (a static_assert in api keeps them equal).
enum class Dtype : uint8_t { F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U64, U32, U16, U8, Bool };

uint64_t dtype_bytes(Dtype dtype);

inline constexpr uint64_t kLengthBytes = 8;               // in front of the header, little-endian
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr size_t kMaxDimensions = 8;               // = DSM_MAX_DIMENSIONS

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the data section
  uint64_t end = 0;
};

/// The header's length out of the first bytes of a file of `file_bytes`. Io: too short, too long, cut short.
Result<uint64_t> parse_header_length(std::string_view first_bytes, uint64_t file_bytes, const std::string& path);

/// The tensors by offset. `header` is the JSON text alone. Io: the message names `path` and the byte of the file, or
/// the tensor, that is wrong.
Result<std::vector<TensorEntry>> parse_header(std::string_view header, uint64_t file_bytes, const std::string& path);

}  // namespace farpage::weights
