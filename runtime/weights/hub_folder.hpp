// A model folder as the hubs lay it out: model.safetensors, or shards that model.safetensors.index.json maps tensors
// to. read_hub_folder() reads headers and index, never data; called on one rank. The index may come from anywhere: it
// names files of the folder only, and it must agree with the shards tensor by tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/weights/safetensors.hpp"

namespace farpage::weights {

inline constexpr uint64_t kMaxIndexBytes = 100'000'000;

/// One safetensors file: where it lies, its size, its header's JSON text as read.
struct WeightFile {
  std::string path;
  uint64_t bytes = 0;
  std::string header;

  uint64_t data_begin() const { return kLengthBytes + header.size(); }
  uint64_t data_bytes() const { return bytes - data_begin(); }
};

/// Io: no such folder, no weights in it, a shard missing, an index or a header that is wrong; the message names the
/// file and the byte or tensor. Otherwise each file's header has passed parse_header(), and no name is in two files.
Result<std::vector<WeightFile>> read_hub_folder(const std::string& directory);

}  // namespace farpage::weights
