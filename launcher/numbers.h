// Numbers as Python's int() and float() read them, since that is what scripts around torchrun rely
// on: blanks round the number, a sign, and single underscores between digits are allowed; other
// bases are not ("010" is ten).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace ddprun {

/// None when the text is not such a number, or does not fit.
std::optional<int> read_int(std::string_view text);
std::optional<double> read_float(std::string_view text);

/// A whole number of seconds above 0, or with s, m, h or d behind it: "90", "15m", "1d". At most
/// ten years.
std::optional<std::chrono::seconds> read_time(std::string_view text);

/// Without blanks at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace ddprun
