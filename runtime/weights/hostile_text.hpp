// Text from files, made fit for one line of an error message. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace farpage::weights {

/// At most 120 bytes of `text`, cut at a character's begin, without control characters.
std::string shown(std::string_view text);

/// The sentence of a JSON library's exception without its own "[json.exception...] parse error at line 1, column 12: ".
std::string json_problem(std::string_view what);

}  // namespace farpage::weights
