// The shard index: what it may say, and that it must agree with the shards.
#include "runtime/weights/shard_index.hpp"

#include <doctest/doctest.h>

namespace farpage::weights {
namespace {

std::string refusal(std::string_view text) {
  const auto result = parse_shard_index(text, "i.json");
  if (result.ok()) return "";
  CHECK(result.status() == Status::Io);
  CHECK(result.failure().message.starts_with("i.json: "));
  return result.failure().message;
}
bool has(const std::string& text, std::string_view part) {
  if (text.find(part) != text.npos) return true;
  MESSAGE("'" << text << "' lacks '" << part << "'");
  return false;
}

TEST_CASE("shard index: tensors map to sorted shards; other fields are passed over") {
  const auto result = parse_shard_index(
      R"({"metadata":{"total_size":1,"weight_map":{"x":[1,{"y":null}]}},"weight_map":{"b":"2.st","a":"1.st","c":"2.st"},"z":[true]})",
      "i");
  REQUIRE(result.ok());
  CHECK(result.value().shards == std::vector<std::string>{"1.st", "2.st"});
  CHECK(result.value().shard_of.at("a") == 0);
  CHECK(result.value().shard_of.at("b") == 1);
  CHECK(result.value().shard_of.size() == 3);
}

TEST_CASE("shard index: what is malformed is refused and named") {
  CHECK(has(refusal("{\"weight_map\":{\"a\":\"1.st\""), "byte"));
  CHECK(has(refusal("[]"), "array"));
  CHECK(has(refusal("3"), "single value"));
  CHECK(has(refusal("{}"), "no weight_map"));
  CHECK(has(refusal(R"({"weight_map":[]})"), "no weight_map"));
  CHECK(has(refusal(R"({"weight_map":{}})"), "empty"));
  CHECK(has(refusal(R"({"weight_map":{"a":1}})"), "'a' is not mapped to a file name"));
  CHECK(has(refusal(R"({"weight_map":{"a":["1.st"]}})"), "'a' is mapped to an array"));
  CHECK(has(refusal(R"({"weight_map":{"a":{"b":"1.st"}}})"), "'a' is mapped to an object"));
  CHECK(has(refusal(R"({"weight_map":{"a":"1.st","a":"2.st"}})"), "'a' is named twice"));
  CHECK(has(refusal(R"({"weight_map":{"a":"1.st"},"weight_map":{"b":"1.st"}})"), "two weight_maps"));
  CHECK(has(refusal("{\"weight_map\":{\"a\":\"\xff\"}}"), "byte 20"));
}

TEST_CASE("shard index: a shard name never leaves the folder") {
  for (const char* name : {"../secret", "/etc/passwd", "a/b", "..", ".", ""})
    CHECK(has(refusal(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name)), "not a file of the folder"));
  CHECK(has(refusal(R"({"weight_map":{"a":"x\u0000y"}})"), "not a file of the folder"));
}

TEST_CASE("shard index: a shard must hold exactly what the index places there") {
  const auto parsed = parse_shard_index(R"({"weight_map":{"a":"1.st","b":"1.st","c":"2.st"}})", "i.json");
  REQUIRE(parsed.ok());
  const auto check = [&](std::vector<const char*> names) {
    std::vector<TensorEntry> tensors;
    for (const char* name : names) tensors.push_back({name, Dtype::U8, {}, 0, 0});
    const auto result = check_shard(parsed.value(), 0, tensors, "i.json", "1.st");
    return result.ok() ? std::string() : result.failure().message;
  };
  CHECK(check({"b", "a"}) == "");
  CHECK(has(check({"a"}), "i.json: places tensor 'b' in 1.st, which does not hold it"));
  CHECK(has(check({"a", "b", "d"}), "1.st: holds tensor 'd', which i.json does not name"));
  CHECK(has(check({"a", "b", "c"}), "1.st: holds tensor 'c', which i.json places in 2.st"));
}

}  // namespace
}  // namespace farpage::weights
