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
/// It is such a number, and above all that read_int() takes.
bool is_too_large(std::string_view text);
std::optional<double> read_float(std::string_view text);

/// For ever. Every longer time is taken as this one: users of torchrun write 2147483647 s for it.
/// Callers may multiply it by ten, since 64 bits hold thirty times as many nanoseconds.
inline constexpr std::chrono::seconds kTimeMax = std::chrono::hours(10 * 365 * 24);

/// As read_int(), and the largest number for a larger one: a count of seconds that ends at kTimeMax
/// has no further use for the difference.
std::optional<int> read_capped_int(std::string_view text);
/// "90", "90s", "10m", "2h", "1d"; at most kTimeMax. Blanks may stand round the whole. None when it
/// is no time above 0.
std::optional<std::chrono::nanoseconds> read_time(std::string_view text);

}  // namespace ddprun
