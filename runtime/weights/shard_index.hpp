// model.safetensors.index.json: which shard holds which tensor. Parsed as hostile input; pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/weights/safetensors.hpp"

namespace farpage::weights {

inline constexpr size_t kMaxShards = 4096;

struct ShardIndex {
  std::vector<std::string> shards;                   // file names, sorted
  std::unordered_map<std::string, size_t> shard_of;  // by tensor name: index into shards
};

/// Io: malformed JSON (byte named), no weight_map, a tensor named twice, a shard name that leaves the folder.
/// "metadata" and what else the index holds is not read: its total_size is advice that hubs get wrong.
Result<ShardIndex> parse_shard_index(std::string_view text, const std::string& path);

/// The tensors of `shard` are exactly those that the index places there. Io names the first that is missing, extra, or
/// placed in another shard.
Result<> check_shard(const ShardIndex& index, size_t shard, const std::vector<TensorEntry>& tensors,
                     const std::string& index_path, const std::string& shard_path);

}  // namespace farpage::weights
