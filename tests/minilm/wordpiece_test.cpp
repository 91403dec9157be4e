// The tokenizer gives the golden ids, and treats odd input as it says. The vocabulary is
// found by tools/fetch-minilm.
#include "wordpiece.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  pclose(pipe);
  return out.substr(0, out.find('\n'));
}

const std::string kRoot = std::string(__FILE__).substr(0, std::string(__FILE__).rfind("/tests/"));

const minilm::WordPiece& tokenizer() {
  static const minilm::WordPiece wordpiece(output_of(kRoot + "/tools/fetch-minilm 2>/dev/null") + "/vocab.txt");
  return wordpiece;
}

}  // namespace

TEST_CASE("wordpiece: the golden texts give the golden ids") {
  std::ifstream file(kRoot + "/tests/data/minilm-golden.json");
  const auto golden = nlohmann::json::parse(file);
  int texts = 0;
  for (const auto& item : golden.at("items")) {
    const std::string name = item.at("name");
    CAPTURE(name);
    CHECK(tokenizer().tokenize(item.at("text").get<std::string>()).ids == item.at("token_ids").get<std::vector<int64_t>>());
    texts++;
  }
  CHECK(texts == 12);
}

TEST_CASE("wordpiece: the empty text is the two special tokens") {
  CHECK(tokenizer().tokenize("").ids == std::vector<int64_t>{101, 102});
  CHECK(tokenizer().tokenize(" \t\n ").ids == std::vector<int64_t>{101, 102});
}

TEST_CASE("wordpiece: more than 254 pieces are cut, and said") {
  std::string text;
  for (int i = 0; i < 300; i++) text += "word ";
  const minilm::Tokens tokens = tokenizer().tokenize(text);
  CHECK(tokens.truncated);
  CHECK(tokens.ids.size() == minilm::kMaxTokens);
  CHECK(tokens.ids.back() == minilm::kSeparate);
}

TEST_CASE("wordpiece: bytes that are no UTF-8 are dropped, and said") {
  const minilm::Tokens tokens = tokenizer().tokenize("good \xff\xfe morning");
  CHECK(tokens.invalid_utf8);
  CHECK(tokens.ids == tokenizer().tokenize("good morning").ids);
}

TEST_CASE("wordpiece: special tokens inside a text are words") {
  const minilm::Tokens tokens = tokenizer().tokenize("[CLS]");
  CHECK(tokens.ids.size() > 3);
}

TEST_CASE("wordpiece: a word of over 100 letters is unknown; accents and case do not matter") {
  CHECK(tokenizer().tokenize(std::string(101, 'a')).ids == std::vector<int64_t>{101, 100, 102});
  CHECK(tokenizer().tokenize("CAFÉ").ids == tokenizer().tokenize("cafe").ids);
}

TEST_CASE("wordpiece: a missing vocabulary is an error that names the file") {
  CHECK_THROWS_WITH_AS(minilm::WordPiece("/nowhere/vocab.txt"), doctest::Contains("/nowhere/vocab.txt"), std::runtime_error);
}
