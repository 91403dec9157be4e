#include "runtime/weights/hostile_text.hpp"

namespace farpage::weights {
namespace {
constexpr size_t kShownBytes = 120;
}

std::string shown(std::string_view text) {
  size_t bytes = text.size();
  if (bytes > kShownBytes) {
    bytes = kShownBytes;
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) bytes--;  // inside a UTF-8 character
  }
  std::string line(text.substr(0, bytes));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return bytes < text.size() ? line + "..." : line;
}

std::string json_problem(std::string_view what) {
  if (const size_t colon = what.find(": "); colon != what.npos) what.remove_prefix(colon + 2);
  return "malformed JSON: " + shown(what);
}

}  // namespace farpage::weights
