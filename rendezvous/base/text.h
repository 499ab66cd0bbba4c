// Text: the few forms in which values are put into sentences, and the few ways in which text from
// files and variables is taken apart. Pure. No sentence is here: those stay with what they are
// about.
#pragma once

#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ddprun {

/// A time that was measured, for people: "0.3 s", "9.9 s", "10 s", "312 s". Tenths below ten
/// seconds, and none that is 0.
std::string seconds_text(std::chrono::nanoseconds measured);
/// A time that somebody chose, digit for digit: "0.25 s", "1800 s".
std::string exact_seconds_text(std::chrono::nanoseconds chosen);

/// Without the white space around it.
std::string_view trimmed(std::string_view text);
/// Of ASCII: what moves a cursor or begins a line, and DEL.
constexpr bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
}
/// With '?' for each control character, also for those of Unicode's C1 set (U+0080 to U+009F, in
/// UTF-8), so that what an environment, a file or another machine says
/// stays on its line, and sends a terminal nothing that it would obey.
std::string printable(std::string text);
/// What is between any of `separators`; nothing is empty. The views are into `text`.
std::vector<std::string_view> words_of(std::string_view text, std::string_view separators);
/// What is between the separators, trimmed; "" has one part, and "a,,b" three.
std::vector<std::string_view> parts_of(std::string_view text, char separator);

/// The decimal number that is all of `text`; none where it is anything else, or does not fit.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

}  // namespace ddprun
