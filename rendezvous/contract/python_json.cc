#include "rendezvous/contract/python_json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::size_t kEscapeSize = 6;  // of \uXXXX

/// The UTF-16 unit of the escape that the text begins with.
std::optional<std::uint16_t> unit_of(std::string_view text) {
  std::uint16_t unit = 0;
  if (text.size() < kEscapeSize || !text.starts_with("\\u")) {
    return std::nullopt;
  }
  const char* const end = text.data() + kEscapeSize;
  const auto read = std::from_chars(text.data() + 2, end, unit, 16);
  return read.ec == std::errc{} && read.ptr == end ? std::optional(unit) : std::nullopt;
}

bool is_first_half(std::uint16_t unit) {
  return unit >= 0xD800 && unit <= 0xDBFF;
}

bool is_second_half(std::uint16_t unit) {
  return unit >= 0xDC00 && unit <= 0xDFFF;
}

/// How much of the text, which begins with a backslash in a string, is one escape; a pair is one.
/// False: it is a lone half.
std::pair<std::size_t, bool> escape_at(std::string_view text) {
  DDP_CHECK(text.starts_with('\\'), "an escape begins with a backslash");
  const auto unit = unit_of(text);
  if (!unit) {
    return {2, true};  // or none, which the reader refuses
  }
  if (is_first_half(*unit)) {
    const auto next = unit_of(text.substr(kEscapeSize));
    return next && is_second_half(*next) ? std::pair{2 * kEscapeSize, true}
                                         : std::pair{kEscapeSize, false};
  }
  return {kEscapeSize, !is_second_half(*unit)};
}

/// The number of Python's that the text begins with; empty: none.
std::string_view number_at(std::string_view text) {
  for (const std::string_view number : {"NaN", "Infinity", "-Infinity"}) {
    if (text.starts_with(number)) {
      return number;
    }
  }
  return {};
}

}  // namespace

std::string strict_json(std::string_view text) {
  std::string strict;
  strict.reserve(text.size());
  bool in_string = false;
  while (!text.empty()) {
    std::size_t taken = 1;
    if (in_string && text.front() == '\\') {
      const auto [size, is_whole] = escape_at(text);
      taken = std::min(size, text.size());
      strict += is_whole ? text.substr(0, taken) : std::string_view("\\ufffd");
    } else if (const auto number = in_string ? std::string_view() : number_at(text);
               !number.empty()) {
      taken = number.size();
      strict += "null";
    } else {
      in_string ^= text.front() == '"';
      strict += text.front();
    }
    text.remove_prefix(taken);
  }
  return strict;
}

}  // namespace ddprun
