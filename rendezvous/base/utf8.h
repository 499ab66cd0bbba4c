// UTF-8: where well-formed text is, and where bytes are that are none. Pure. The table of
// well-formed sequences is the Unicode Standard's (table 3-7): no surrogates, nothing above
// U+10FFFF, no longer form than needed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Bytes of the well-formed sequence with which `text` begins: 1 to 4; 0 when there is none.
std::size_t utf8_sequence_length(std::string_view text);
/// Bytes of the longest well-formed beginning of `text`.
std::size_t utf8_prefix_length(std::string_view text);
/// As much of that as fits into `bytes_max`: no character is cut.
std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max);
/// Bytes before the first well-formed sequence.
std::size_t malformed_prefix_length(std::string_view text);
/// The code point of the sequence with which `text` begins, which is well-formed.
char32_t first_code_point(std::string_view text);
/// Appends a code point, which is none of the surrogates.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace ddprun
