#include "wordpiece.hpp"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/ustring.h>
#include <unicode/utf8.h>

#include <fstream>
#include <stdexcept>

namespace minilm {
namespace {

constexpr std::size_t kMaxWord = 100;  // longer words are unknown

bool is_cjk(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_space(char32_t c) { return c == '\t' || c == '\n' || c == '\r' || u_isUWhiteSpace(static_cast<UChar32>(c)); }

bool is_control(char32_t c) {
  const int8_t type = u_charType(static_cast<UChar32>(c));
  return type == U_CONTROL_CHAR || type == U_FORMAT_CHAR || type == U_PRIVATE_USE_CHAR;
}

bool is_punctuation(char32_t c) {
  if ((c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126)) return true;
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0;
}

// Code points, cleaned: controls go, white space is a blank, ideographs stand alone. Bad bytes are dropped.
std::u32string clean(std::string_view text, bool& invalid) {
  std::u32string out;
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto length = static_cast<int32_t>(text.size());
  for (int32_t at = 0; at < length;) {
    UChar32 c;
    U8_NEXT(bytes, at, length, c);
    if (c < 0) {
      invalid = true;
      continue;
    }
    const auto point = static_cast<char32_t>(c);
    if (is_space(point))
      out += U' ';
    else if (point == 0 || point == 0xFFFD || is_control(point))
      continue;
    else if (is_cjk(point))
      out += {U' ', point, U' '};
    else
      out += point;
  }
  return out;
}

// NFD, without marks, in lower case one code point at a time.
std::u32string fold(const std::u32string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(status);
  if (U_FAILURE(status)) throw std::runtime_error("ICU has no NFD data");
  const icu::UnicodeString decomposed =
      nfd->normalize(icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()), static_cast<int32_t>(text.size())), status);
  std::u32string out;
  for (int32_t at = 0; at < decomposed.length(); at = decomposed.moveIndex32(at, 1)) {
    const UChar32 c = decomposed.char32At(at);
    if (u_charType(c) == U_NON_SPACING_MARK) continue;
    icu::UnicodeString lower(c);
    lower.toLower(icu::Locale::getRoot());
    for (int32_t i = 0; i < lower.length(); i = lower.moveIndex32(i, 1)) out += static_cast<char32_t>(lower.char32At(i));
  }
  return out;
}

std::string utf8(const char32_t* points, std::size_t count) {
  std::string out;
  icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(points), static_cast<int32_t>(count)).toUTF8String(out);
  return out;
}

}  // namespace

WordPiece::WordPiece(const std::string& vocabulary_file) {
  std::ifstream file(vocabulary_file);
  if (!file) throw std::runtime_error(vocabulary_file + ": cannot be read");
  std::string line;
  for (int64_t id = 0; std::getline(file, line); id++) ids_.emplace(line, id);
  if (ids_.size() < 1000 || ids_.find("[CLS]") == ids_.end() || ids_.at("[CLS]") != kClassify)
    throw std::runtime_error(vocabulary_file + ": not the vocabulary of all-MiniLM-L6-v2");
}

// Longest pieces from the left; a word with a part that is in no piece is unknown as a whole.
void WordPiece::add_word(const std::u32string& word, std::vector<int64_t>& ids) const {
  if (word.size() > kMaxWord) {
    ids.push_back(kUnknown);
    return;
  }
  const std::size_t before = ids.size();
  for (std::size_t begin = 0; begin < word.size();) {
    std::size_t end = word.size();
    for (; end > begin; end--) {
      const auto found = ids_.find((begin == 0 ? "" : "##") + utf8(word.data() + begin, end - begin));
      if (found == ids_.end()) continue;
      ids.push_back(found->second);
      break;
    }
    if (end == begin) {
      ids.resize(before);
      ids.push_back(kUnknown);
      return;
    }
    begin = end;
  }
}

Tokens WordPiece::tokenize(std::string_view text) const {
  Tokens tokens;
  const std::u32string folded = fold(clean(text, tokens.invalid_utf8));
  tokens.ids.push_back(kClassify);
  std::u32string word;
  const auto end_word = [&] {
    if (!word.empty()) add_word(word, tokens.ids);
    word.clear();
  };
  for (const char32_t c : folded) {
    if (is_space(c)) {
      end_word();
    } else if (is_punctuation(c)) {
      end_word();
      add_word(std::u32string(1, c), tokens.ids);
    } else {
      word += c;
    }
  }
  end_word();
  if (tokens.ids.size() > kMaxTokens - 1) {
    tokens.truncated = true;
    tokens.ids.resize(kMaxTokens - 1);
  }
  tokens.ids.push_back(kSeparate);
  return tokens;
}

}  // namespace minilm
