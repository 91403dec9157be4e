// The header parser against right and hostile headers. Each refusal must name the file, and the byte or the tensor.
#include "runtime/weights/safetensors.hpp"

#include <doctest/doctest.h>

#include <random>

namespace farpage::weights {
namespace {

// The message of the refusal; "" when the header was accepted.
std::string refusal(std::string_view header, uint64_t data_bytes) {
  const auto result = parse_header(header, kLengthBytes + header.size() + data_bytes, "m.safetensors");
  if (result.ok()) return "";
  CHECK(result.status() == Status::Io);
  CHECK(result.failure().message.starts_with("m.safetensors: "));
  return result.failure().message;
}

bool has(const std::string& text, std::string_view part) {
  if (text.find(part) != text.npos) return true;
  MESSAGE("'" << text << "' lacks '" << part << "'");
  return false;
}

std::string entry(std::string_view name, std::string_view dtype, std::string_view shape, uint64_t begin, uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

std::string length_bytes(uint64_t n) {
  std::string text;
  for (int i = 0; i < 8; i++) text += static_cast<char>(n >> (8 * i) & 0xff);
  return text;
}

TEST_CASE("safetensors: tensors come out by offset, with dtype and shape") {
  const std::string header = "{" + entry("b", "F32", "[2,3]", 8, 32) + R"(,"__metadata__":{"format":"pt"},)" +
                             entry("a", "I64", "[]", 0, 8) + "," + entry("empty", "U8", "[0,7]", 32, 32) + "}   ";
  const auto result = parse_header(header, kLengthBytes + header.size() + 32, "m");
  REQUIRE(result.ok());
  const auto& tensors = result.value();
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].shape.empty());
  CHECK(tensors[0].dtype == Dtype::I64);
  CHECK(tensors[1].name == "b");
  CHECK(tensors[1].shape == std::vector<int64_t>{2, 3});
  CHECK(tensors[1].begin == 8);
  CHECK(tensors[1].end == 32);
  CHECK(tensors[2].name == "empty");
}

TEST_CASE("safetensors: every dtype of the format has its size") {
  const std::pair<const char*, uint64_t> sizes[] = {{"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
                                                    {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
                                                    {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};
  for (const auto& [name, bytes] : sizes) {
    CAPTURE(std::string(name));
    CHECK(refusal("{" + entry("t", name, "[3]", 0, 3 * bytes) + "}", 3 * bytes) == "");
    CHECK(has(refusal("{" + entry("t", name, "[3]", 0, 3 * bytes + 1) + "}", 3 * bytes + 1), "needs"));
  }
}

TEST_CASE("safetensors: a header length that does not fit is refused with its bytes") {
  const auto message = [](std::string_view first, uint64_t file_bytes) {
    const auto result = parse_header_length(first, file_bytes, "m");
    return result.ok() ? std::string() : result.failure().message;
  };
  CHECK(has(message("\x05", 1), "cut short: 1 bytes"));
  CHECK(has(message(length_bytes(100), 107), "header ends at byte 108, the file at 107"));
  CHECK(message(length_bytes(100), 108) == "");
  CHECK(has(message(length_bytes(100'000'001), 1ull << 40), "100000001"));
  CHECK(has(message(length_bytes(UINT64_MAX), 1ull << 40), "18446744073709551615"));
}

TEST_CASE("safetensors: a header cut anywhere is refused") {
  const std::string header = "{" + entry("a", "F32", "[2]", 0, 8) + R"(,"__metadata__":{"k":"v"}})";
  REQUIRE(refusal(header, 8) == "");
  for (size_t length = 0; length < header.size(); length++) CHECK(refusal(header.substr(0, length), 8) != "");
}

TEST_CASE("safetensors: malformed JSON is refused with the byte of the file") {
  // Byte 8 is '{'; the stray 'x' is the second byte of the header.
  CHECK(has(refusal("{x}", 0), "byte 9"));
  CHECK(has(refusal("[]", 0), "byte 8"));
  CHECK(has(refusal("", 0), "byte 8"));
  CHECK(has(refusal("{} {}", 0), "byte 11"));
}

TEST_CASE("safetensors: bad UTF-8 in a name is refused with its byte") {
  CHECK(has(refusal("{\"a\xff\":{}}", 0), "byte 11"));
  CHECK(refusal("{\"\xed\xa0\x80\":{}}", 0) != "");  // a surrogate
  CHECK(refusal("{\"\xc0\xaf\":{}}", 0) != "");      // overlong
}

TEST_CASE("safetensors: names must be unique and without zero bytes") {
  CHECK(has(refusal("{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("a", "U8", "[1]", 1, 2) + "}", 2),
            "'a' is named twice"));
  CHECK(has(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "named twice"));
  CHECK(has(refusal("{" + entry("a\\u0000b", "U8", "[1]", 0, 1) + "}", 1), "zero byte"));
}

TEST_CASE("safetensors: overlapping tensors are refused, both named") {
  const std::string text = refusal("{" + entry("a", "U8", "[4]", 0, 4) + "," + entry("b", "U8", "[4]", 3, 7) + "}", 7);
  CHECK(has(text, "'b' begins at data byte 3"));
  CHECK(has(text, "'a' which ends at 4"));
}

TEST_CASE("safetensors: holes are refused with their bytes") {
  CHECK(has(refusal("{" + entry("a", "U8", "[4]", 0, 4) + "," + entry("b", "U8", "[4]", 6, 10) + "}", 10),
            "hole of 2 bytes at data byte 4"));
  CHECK(has(refusal("{" + entry("a", "U8", "[4]", 1, 5) + "}", 5), "hole of 1 bytes at data byte 0"));
  CHECK(has(refusal("{" + entry("a", "U8", "[4]", 0, 4) + "}", 9), "5 bytes belong to no tensor"));
  CHECK(has(refusal("{}", 1), "1 bytes belong to no tensor"));
}

TEST_CASE("safetensors: data cut short is refused with the tensor and the byte") {
  CHECK(has(refusal("{" + entry("a", "U8", "[4]", 0, 4) + "," + entry("b", "U8", "[4]", 4, 8) + "}", 6), "cut short"));
}

TEST_CASE("safetensors: sizes that disagree or overflow are refused") {
  CHECK(has(refusal("{" + entry("a", "F32", "[2]", 0, 4) + "}", 4), "needs 8 bytes"));
  CHECK(has(refusal("{" + entry("a", "U8", "[4]", 4, 0) + "}", 4), "before its begin"));
  CHECK(has(refusal("{" + entry("a", "F64", "[4611686018427387904,4]", 0, 8) + "}", 8), "64 bits"));
  // A product that wraps to the very size that the offsets give.
  CHECK(has(refusal("{" + entry("a", "U8", "[4294967296,4294967296]", 0, 0) + "}", 0), "64 bits"));
  CHECK(has(refusal("{" + entry("a", "U8", "[9223372036854775808]", 0, 1) + "}", 1), "dimension"));
  CHECK(has(refusal("{" + entry("a", "U8", "[1]", 18446744073709551614ull, UINT64_MAX) + "}", 1), "hole"));
}

TEST_CASE("safetensors: fields of the wrong kind are refused") {
  const auto with = [](std::string_view fields) { return refusal(fmt::format(R"({{"a":{{{}}}}})", fields), 1); };
  CHECK(has(with(R"("dtype":"U8","shape":[1])"), "no data_offsets"));
  CHECK(has(with(R"("shape":[1],"data_offsets":[0,1])"), "no dtype"));
  CHECK(has(with(R"("dtype":"U8","data_offsets":[0,1])"), "no shape"));
  CHECK(has(with(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), "dtype twice"));
  CHECK(has(with(R"("dtype":"C64","shape":[1],"data_offsets":[0,1])"), "unknown dtype 'C64'"));
  CHECK(has(with(R"("dtype":7,"shape":[1],"data_offsets":[0,1])"), "a number"));
  CHECK(has(with(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "-1"));
  CHECK(has(with(R"("dtype":"U8","shape":[1.5],"data_offsets":[0,1])"), "1.5"));
  CHECK(has(with(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), "a number"));
  CHECK(has(with(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), "an array"));
  CHECK(has(with(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), "1 data_offsets"));
  CHECK(has(with(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), "more than 2"));
  CHECK(has(with(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"), "more than 8 dimensions"));
  CHECK(has(with(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"stride":[1])"), "unknown field 'stride'"));
  CHECK(has(refusal(R"({"a":3})", 0), "a number"));
  CHECK(has(refusal(R"({"__metadata__":{"k":1}})", 0), "a number"));
  CHECK(has(refusal(R"({"a":null})", 0), "null"));
}

TEST_CASE("safetensors: deep nesting is refused at once, whatever its depth") {
  CHECK(refusal("{\"a\":" + std::string(5'000'000, '['), 0) != "");
  std::string objects = "{";
  for (int i = 0; i < 100'000; i++) objects += "\"a\":{";
  CHECK(refusal(objects, 0) != "");
}

TEST_CASE("safetensors: a long or unprintable name is cut in the message") {
  const std::string text = refusal("{" + entry(std::string(5000, 'n') + "\\n", "XX", "[1]", 0, 1) + "}", 1);
  CHECK(text.size() < 300);
  CHECK(refusal("{" + entry("a\\nb", "XX", "[1]", 0, 1) + "}", 1).find('\n') == std::string::npos);
}

TEST_CASE("safetensors: whatever a damaged header still parses to covers the data exactly once") {
  const std::string header = "{" + entry("a", "F32", "[2,2]", 0, 16) + "," + entry("b", "BF16", "[3]", 16, 22) + "," +
                             entry("c", "U8", "[2]", 22, 24) + "}";
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  size_t refused = 0;
  for (int round = 0; round < 20'000; round++) {
    std::string damaged = header;
    for (uint64_t flips = 1 + random() % 3; flips > 0; flips--)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto result = parse_header(damaged, kLengthBytes + damaged.size() + 24, "m");
    if (!result.ok()) {
      refused++;
      continue;
    }
    uint64_t at = 0;
    for (const TensorEntry& tensor : result.value()) {
      uint64_t bytes = dtype_bytes(tensor.dtype);
      for (const int64_t extent : tensor.shape) bytes *= static_cast<uint64_t>(extent);
      REQUIRE(tensor.begin == at);
      REQUIRE(tensor.end - tensor.begin == bytes);
      at = tensor.end;
    }
    REQUIRE(at == 24);
  }
  CHECK(refused > 10'000);
}

}  // namespace
}  // namespace farpage::weights
