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

/// Far below 2^63, so that sums and small products of counts do not overflow. A round number, since
/// the sentence names it.
inline constexpr std::int64_t kCountMax = 1'000'000'000'000;

inline CLI::Validator count_from_1() {
  return number_that<std::int64_t>("a whole number from 1 to 10^12",
                                   [](std::int64_t n) { return n >= 1 && n <= kCountMax; });
}

/// Of snapshots.
inline CLI::Validator keep_count() {
  return number_that<int>("a whole number from 1 to 2^31 - 1", [](int n) { return n >= 1; });
}

/// Whether it is there is found where it is used. But an empty one comes from a shell's variable
/// that is not set, and would be told by the system in words that name no option.
inline CLI::Validator some_path() {
  return CLI::Validator(
      [](std::string& text) { return text.empty() ? "must be a path, not ''" : std::string(); },
      "");
}

/// A folder's name, since the folder is made in another one.
inline CLI::Validator folder_name() {
  return CLI::Validator(
      [](std::string& text) {
        const bool good =
            !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos;
        return good ? std::string()
                    : "must be a name of a new folder, without '/', not '" + text + "'";
      },
      "");
}

}  // namespace ddp
