// WordPiece for the uncased vocabulary of all-MiniLM-L6-v2: text to token ids, as docs/minilm-model.md describes. Texts are
// data: "[CLS]" and the like inside a text are words, not special tokens. Read-only after load: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace minilm {

inline constexpr int64_t kUnknown = 100, kClassify = 101, kSeparate = 102;
inline constexpr std::size_t kMaxTokens = 256;  // with the two special ones

struct Tokens {
  std::vector<int64_t> ids;
  bool truncated = false;     // the text had more pieces than fit
  bool invalid_utf8 = false;  // bytes that are no UTF-8 were dropped
};

class WordPiece {
 public:
  /// Reads vocab.txt: a token a line, its id the line's number from 0. Throws std::runtime_error naming the file.
  explicit WordPiece(const std::string& vocabulary_file);
  Tokens tokenize(std::string_view text) const;

 private:
  void add_word(const std::u32string& word, std::vector<int64_t>& ids) const;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace minilm
