// Folders on disk: one file, shards, and everything that may be wrong with them.
#include "runtime/weights/hub_folder.hpp"

#include <doctest/doctest.h>

#include "tests/weights/safetensors_file.hpp"

namespace farpage::weights {
namespace {

using testing::safetensors_file;
using testing::TemporaryFolder;

constexpr const char* kOne = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
constexpr const char* kTwo = R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
constexpr const char* kIndexName = "model.safetensors.index.json";

std::string refusal(const std::string& folder) {
  const auto result = read_hub_folder(folder);
  if (result.ok()) return "";
  CHECK(result.status() == Status::Io);
  return result.failure().message;
}
bool has(const std::string& text, std::string_view part) {
  if (text.find(part) != text.npos) return true;
  MESSAGE("'" << text << "' lacks '" << part << "'");
  return false;
}

TEST_CASE("hub folder: one file") {
  TemporaryFolder folder;
  folder.write("model.safetensors", safetensors_file(kOne, 4));
  const auto result = read_hub_folder(folder.path());
  REQUIRE(result.ok());
  REQUIRE(result.value().size() == 1);
  CHECK(result.value()[0].header == kOne);
  CHECK(result.value()[0].data_bytes() == 4);
  CHECK(result.value()[0].data_begin() == 8 + std::string_view(kOne).size());
}

TEST_CASE("hub folder: shards in the order of their names") {
  TemporaryFolder folder;
  folder.write("m-1.safetensors", safetensors_file(kOne, 4));
  folder.write("m-2.safetensors", safetensors_file(kTwo, 2));
  folder.write(kIndexName, R"({"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}})");
  const auto result = read_hub_folder(folder.path());
  REQUIRE(result.ok());
  REQUIRE(result.value().size() == 2);
  CHECK(result.value()[0].path == folder.path() + "/m-1.safetensors");
  CHECK(result.value()[1].path == folder.path() + "/m-2.safetensors");
}

TEST_CASE("hub folder: what is missing is named") {
  TemporaryFolder folder;
  CHECK(has(refusal(folder.path() + "/none"), "/none': No such file"));
  CHECK(has(refusal(folder.path()), "neither model.safetensors nor model.safetensors.index.json"));
  folder.write("plain", "x");
  CHECK(has(refusal(folder.path() + "/plain"), "not a folder"));
  folder.write(kIndexName, R"({"weight_map":{"a":"m-1.safetensors"}})");
  CHECK(has(refusal(folder.path()), "m-1.safetensors: missing"));
}

TEST_CASE("hub folder: an index that disagrees with its shards is refused") {
  TemporaryFolder folder;
  folder.write("m-1.safetensors", safetensors_file(kOne, 4));
  folder.write("m-2.safetensors", safetensors_file(kTwo, 2));
  folder.write(kIndexName, R"({"weight_map":{"b":"m-1.safetensors","a":"m-2.safetensors"}})");
  CHECK(has(refusal(folder.path()), "holds tensor 'a'"));
  folder.write(kIndexName, R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-2.safetensors"}})");
  CHECK(has(refusal(folder.path()), "places tensor 'c'"));
}

TEST_CASE("hub folder: a file cut at any byte is refused and named") {
  TemporaryFolder folder;
  const std::string whole = safetensors_file(kOne, 4);
  for (size_t length = 0; length < whole.size(); length++) {
    folder.write("model.safetensors", std::string_view(whole).substr(0, length));
    CHECK(has(refusal(folder.path()), "model.safetensors: "));
  }
}

TEST_CASE("hub folder: a folder in the place of a file is refused") {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/model.safetensors");
  CHECK(has(refusal(folder.path()), "not a regular file"));
}

}  // namespace
}  // namespace farpage::weights
