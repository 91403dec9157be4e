#include "runtime/weights/hub_folder.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "runtime/weights/input_file.hpp"
#include "runtime/weights/shard_index.hpp"

namespace farpage::weights {
namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

bool exists(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0;
}

Result<> check_directory(const std::string& directory) {
  struct stat status;
  if (::stat(directory.c_str(), &status) != 0)
    return error(Status::Io, "model folder '{}': {}", directory, std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) return error(Status::Io, "model folder '{}': not a folder", directory);
  return success();
}

struct ReadHeader {
  WeightFile file;
  std::vector<TensorEntry> tensors;
};

Result<ReadHeader> read_header(const std::string& path) {
  DSM_ASSIGN(const InputFile input, InputFile::open(path));
  char first[kLengthBytes] = {};
  if (input.bytes() >= kLengthBytes) DSM_TRY(input.read(first, kLengthBytes, 0));
  DSM_ASSIGN(const uint64_t length, parse_header_length({first, kLengthBytes}, input.bytes(), path));
  ReadHeader result{{path, input.bytes(), std::string(length, '\0')}, {}};
  DSM_TRY(input.read(result.file.header.data(), length, kLengthBytes));
  DSM_ASSIGN(result.tensors, parse_header(result.file.header, input.bytes(), path));
  return result;
}

Result<std::string> read_text(const std::string& path) {
  DSM_ASSIGN(const InputFile input, InputFile::open(path));
  if (input.bytes() > kMaxIndexBytes)
    return error(Status::Io, "{}: {} bytes; at most {} are read", path, input.bytes(), kMaxIndexBytes);
  std::string text(input.bytes(), '\0');
  DSM_TRY(input.read(text.data(), text.size(), 0));
  return text;
}

Result<std::vector<WeightFile>> read_shards(const std::string& directory, const std::string& index_path) {
  DSM_ASSIGN(const std::string text, read_text(index_path));
  DSM_ASSIGN(const ShardIndex index, parse_shard_index(text, index_path));
  std::vector<WeightFile> files;
  for (size_t shard = 0; shard < index.shards.size(); shard++) {
    const std::string path = directory + "/" + index.shards[shard];
    if (!exists(path)) return error(Status::Io, "{}: missing; {} names it", path, index_path);
    DSM_ASSIGN(ReadHeader read, read_header(path));
    DSM_TRY(check_shard(index, shard, read.tensors, index_path, path));
    files.push_back(std::move(read.file));
  }
  return files;
}

}  // namespace

Result<std::vector<WeightFile>> read_hub_folder(const std::string& directory) {
  DSM_TRY(check_directory(directory));
  const std::string single = directory + "/" + kSingleName, index = directory + "/" + kIndexName;
  if (exists(single)) {
    DSM_ASSIGN(ReadHeader read, read_header(single));
    std::vector<WeightFile> files;
    files.push_back(std::move(read.file));
    return files;
  }
  if (exists(index)) return read_shards(directory, index);
  return error(Status::Io, "model folder '{}': neither {} nor {} is there", directory, kSingleName, kIndexName);
}

}  // namespace farpage::weights
