// What the command lines of all trainers share: spellings, checked numbers and names. Only for the
// sources that read options.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace ddp {

/// Both spellings of the tutorials: --batch-size and --batch_size. Other names may follow the first
/// one behind a comma; they stay as they are.
inline std::string spellings(const std::string& names) {
  const auto end = std::min(names.find(','), names.size());
  auto other = names.substr(0, end);
  std::replace(other.begin() + 2, other.end(), '-', '_');
  return names.starts_with(other) ? names : names + "," + other;
}

/// The whole text as a number that Number can hold.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

/// One sentence for a value that is not a number of this kind. CLI11 by itself reads -1 as the
/// largest unsigned number, and so a number that is too large for any. 010 it reads as 8, so a
/// whole number has no zeros in front.
template <class Number>
CLI::Validator number_that(std::string what, bool (*holds)(Number)) {
  return CLI::Validator(
      [what = std::move(what), holds](std::string& text) {
        const auto value = number_in<Number>(text);
        bool good = value && holds(*value);
        if constexpr (std::integral<Number>) {
          good = good && text == std::to_string(*value);
        }
        return good ? std::string() : "must be " + what + ", not '" + text + "'";
      },
      "");
}

/// Far below 2^63, so that sums and small products of counts do not overflow.
inline CLI::Validator count_from_1() {
  return number_that<std::int64_t>("a whole number of at least 1",
                                   [](std::int64_t n) { return n >= 1 && n < 1LL << 40; });
}

/// A folder's name, since the folder is made in another one.
inline CLI::Validator folder_name() {
  return CLI::Validator(
      [](std::string& text) {
        const bool good =
            !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos;
        return good ? std::string() : "must be a name without '/', not '" + text + "'";
      },
      "");
}

}  // namespace ddp
