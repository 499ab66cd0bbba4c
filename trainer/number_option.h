// What the command lines of all trainers share: spellings and checked numbers. Only for the sources
// that read options.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

namespace ddp {

/// Both spellings of the tutorials: --batch-size and --batch_size.
inline std::string spellings(const std::string& name) {
  auto other = name;
  std::replace(other.begin() + 2, other.end(), '-', '_');
  return other == name ? name : name + "," + other;
}

/// One sentence for a value that is not a number of this kind. CLI11 by itself reads -1 as the
/// largest unsigned number.
template <class Number>
CLI::Validator number_that(std::string what, bool (*holds)(Number)) {
  return CLI::Validator(
      [what = std::move(what), holds](std::string& text) {
        Number value{};
        const bool good = CLI::detail::lexical_cast(text, value) && holds(value) &&
                          (std::is_signed_v<Number> || !text.starts_with('-'));
        return good ? std::string() : "must be " + what + ", not '" + text + "'";
      },
      "");
}

}  // namespace ddp
