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

/// The word or number that the text begins with, outside of strings; empty: neither.
std::string_view scalar_at(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
  });
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

/// Python's words, and a number beyond what a double holds, which it has no word for.
bool has_no_json(std::string_view scalar) {
  if (scalar == "NaN" || scalar == "Infinity" || scalar == "-Infinity") {
    return true;
  }
  double value = 0;
  const auto read = std::from_chars(scalar.data(), scalar.data() + scalar.size(), value);
  return read.ec == std::errc::result_out_of_range && read.ptr == scalar.data() + scalar.size();
}

}  // namespace

std::string strict_json(std::string_view text) {
  std::string strict;
  strict.reserve(text.size());
  std::size_t depth = 0;
  bool in_string = false;
  const auto keep = [&](std::string_view part) {
    if (depth <= kJsonDepthMax) {
      strict += part;
    }
  };
  while (!text.empty()) {
    const char first = text.front();
    std::size_t taken = 1;
    if (in_string && first == '\\') {
      const auto [size, is_whole] = escape_at(text);
      taken = std::min(size, text.size());
      keep(is_whole ? text.substr(0, taken) : std::string_view("\\ufffd"));
    } else if (in_string || first == '"') {
      in_string ^= first == '"';
      keep(text.substr(0, 1));
    } else if (const auto scalar = scalar_at(text); !scalar.empty()) {
      taken = scalar.size();
      keep(has_no_json(scalar) ? std::string_view("null") : scalar);
    } else if (first == '[' || first == '{') {
      if (++depth == kJsonDepthMax + 1) {
        strict += "null";
      }
      keep(text.substr(0, 1));
    } else {
      keep(text.substr(0, 1));
      depth -= (first == ']' || first == '}') && depth > 0 ? 1 : 0;
    }
    text.remove_prefix(taken);
  }
  return strict;
}

}  // namespace ddprun
