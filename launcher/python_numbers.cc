#include "launcher/python_numbers.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>

#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes out underscores that stand between two digits (PEP 515). Any other stays, and makes the
/// text no number, as in Python.
std::string without_digit_grouping(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool grouping = text[i] == '_' && i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) &&
                          is_digit(text[i + 1]);
    if (!grouping) {
      plain += text[i];
    }
  }
  return plain;
}

/// from_chars() depends on no locale. Three things that Python reads and it does not are taken out
/// first: blanks around the number, a plus sign, and underscores. Neither takes a prefix such as
/// 0x.
template <class Number>
std::optional<Number> read(std::string_view text) {
  std::string plain = without_digit_grouping(trimmed(text));
  if (!plain.empty() && plain.front() == '+') {
    plain.erase(0, 1);
    if (!plain.empty() && plain.front() == '-') {
      return std::nullopt;  // from_chars would take the second sign
    }
  }
  Number number{};
  const char* const end = plain.data() + plain.size();
  const auto [rest, error] = std::from_chars(plain.data(), end, number);
  if constexpr (std::is_floating_point_v<Number>) {
    // Python's are inf and 0 then. No locale is set in this program, so strtod() has that of C.
    if (error == std::errc::result_out_of_range && rest == end) {
      return std::strtod(plain.c_str(), nullptr);
    }
  }
  if (error != std::errc{} || rest != end || plain.empty()) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::optional<int> read_int(std::string_view text) {
  return read<int>(text);
}

/// Of any length: Python's int() has no limit.
bool is_too_large(std::string_view text) {
  const std::string plain = without_digit_grouping(trimmed(text));
  const std::size_t sign = plain.starts_with('+') ? 1 : 0;
  return plain.size() > sign &&
         std::all_of(plain.begin() + static_cast<std::ptrdiff_t>(sign), plain.end(), is_digit) &&
         !read_int(text);
}

std::optional<int> read_capped_int(std::string_view text) {
  return is_too_large(text) ? std::numeric_limits<int>::max() : read_int(text);
}

std::optional<double> read_float(std::string_view text) {
  return read<double>(text);
}

// One unit and a whole number of it: in "1h30m" or "1.5h" a reader would have to guess.
std::optional<std::chrono::nanoseconds> read_time(std::string_view text) {
  std::int64_t unit = 1;
  text = trimmed(text);
  if (!text.empty()) {
    switch (text.back()) {
      case 'd':
        unit = 86'400;
        break;
      case 'h':
        unit = 3'600;
        break;
      case 'm':
        unit = 60;
        break;
      default:
        break;
    }
    if (unit != 1 || text.back() == 's') {
      text.remove_suffix(1);
    }
    // "5 s" is no time, as it is none to options that take seconds alone.
    if (text != trimmed(text)) {
      return std::nullopt;
    }
  }
  const auto count = read_capped_int(text);
  if (!count || *count <= 0) {
    return std::nullopt;
  }
  return std::min(std::chrono::seconds(*count * unit), kTimeMax);
}

}  // namespace ddprun
