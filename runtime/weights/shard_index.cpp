#include "runtime/weights/shard_index.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/weights/hostile_text.hpp"

namespace farpage::weights {
namespace {

using Json = nlohmann::json;

// Keeps the pairs of the top-level "weight_map" and passes over everything else without building it.
class IndexReader : public Json::json_sax_t {
 public:
  std::unordered_map<std::string, std::string> file_of;
  bool found = false;
  std::string problem;
  size_t problem_byte = 0;

  bool start_object(size_t) override {
    if (in_map()) return refuse("tensor '{}' is mapped to an object", shown(key_));
    depth_++;
    if (depth_ == 2 && key_ == "weight_map") map_open_ = found = true;
    return true;
  }
  bool end_object() override {
    if (in_map()) map_open_ = false;
    depth_--;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ == 0) return refuse("an array instead of an object");
    if (in_map()) return refuse("tensor '{}' is mapped to an array", shown(key_));
    depth_++;
    return true;
  }
  bool end_array() override { return depth_--, true; }
  bool key(std::string& name) override {
    if (in_map() && file_of.contains(name)) return refuse("tensor '{}' is named twice", shown(name));
    if (depth_ == 1 && name == "weight_map" && found) return refuse("two weight_maps");
    if (depth_ <= 2) key_ = name;
    return true;
  }
  bool string(std::string& text) override {
    if (in_map()) file_of.emplace(key_, text);
    return scalar(true);
  }
  bool null() override { return scalar(false); }
  bool boolean(bool) override { return scalar(false); }
  bool number_integer(int64_t) override { return scalar(false); }
  bool number_unsigned(uint64_t) override { return scalar(false); }
  bool number_float(double, const std::string&) override { return scalar(false); }
  bool binary(Json::binary_t&) override { return scalar(false); }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& failure) override {
    problem = json_problem(failure.what());
    problem_byte = byte;
    return false;
  }

 private:
  bool in_map() const { return map_open_ && depth_ == 2; }
  bool scalar(bool is_text) {
    if (depth_ == 0) return refuse("a single value instead of an object");
    if (in_map() && !is_text) return refuse("tensor '{}' is not mapped to a file name", shown(key_));
    return true;
  }
  template <class... Args>
  bool refuse(fmt::format_string<Args...> text, Args&&... args) {
    problem = fmt::format(text, std::forward<Args>(args)...);
    return false;
  }

  size_t depth_ = 0;
  bool map_open_ = false;
  std::string key_;
};

// A file of the same folder, nothing that leads elsewhere.
bool stays_in_folder(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view text, const std::string& path) {
  IndexReader reader;
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) {
    if (reader.problem_byte == 0) return error(Status::Io, "{}: {}", path, reader.problem);
    return error(Status::Io, "{}: byte {}: {}", path, reader.problem_byte - 1, reader.problem);
  }
  if (!reader.found) return error(Status::Io, "{}: no weight_map", path);
  ShardIndex index;
  for (const auto& [tensor, file] : reader.file_of) {
    if (!stays_in_folder(file))
      return error(Status::Io, "{}: tensor '{}' is mapped to '{}', which is not a file of the folder", path,
                   shown(tensor), shown(file));
    index.shards.push_back(file);
  }
  std::sort(index.shards.begin(), index.shards.end());
  index.shards.erase(std::unique(index.shards.begin(), index.shards.end()), index.shards.end());
  if (index.shards.empty()) return error(Status::Io, "{}: the weight_map is empty", path);
  if (index.shards.size() > kMaxShards)
    return error(Status::Io, "{}: {} shards; at most {} are supported", path, index.shards.size(), kMaxShards);
  for (const auto& [tensor, file] : reader.file_of)
    index.shard_of[tensor] =
        static_cast<size_t>(std::lower_bound(index.shards.begin(), index.shards.end(), file) - index.shards.begin());
  return index;
}

Result<> check_shard(const ShardIndex& index, size_t shard, const std::vector<TensorEntry>& tensors,
                     const std::string& index_path, const std::string& shard_path) {
  size_t expected = 0;
  for (const auto& [tensor, in] : index.shard_of) expected += in == shard;
  for (const TensorEntry& tensor : tensors) {
    const auto place = index.shard_of.find(tensor.name);
    if (place == index.shard_of.end())
      return error(Status::Io, "{}: holds tensor '{}', which {} does not name", shard_path, shown(tensor.name),
                   index_path);
    if (place->second != shard)
      return error(Status::Io, "{}: holds tensor '{}', which {} places in {}", shard_path, shown(tensor.name),
                   index_path, index.shards[place->second]);
  }
  if (tensors.size() == expected) return success();
  // Names of a shard are unique and all expected, so what is missing is in the index only. The first by name, so that
  // the message does not depend on the order of a hash table.
  std::unordered_map<std::string_view, bool> held;
  for (const TensorEntry& tensor : tensors) held[tensor.name] = true;
  std::string_view missing;
  for (const auto& [tensor, in] : index.shard_of)
    if (in == shard && !held.contains(tensor) && (missing.empty() || tensor < missing)) missing = tensor;
  return error(Status::Io, "{}: places tensor '{}' in {}, which does not hold it", index_path, shown(missing),
               shard_path);
}

}  // namespace farpage::weights
