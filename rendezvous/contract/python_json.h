// Python's JSON: what its json module writes beyond JSON (RFC 8259), and what its readers take.
// These are NaN, Infinity and -Infinity (json.dump's allow_nan), numbers that no double holds, and
// halves of surrogate pairs, as os.fsdecode makes them of a file name that is no UTF-8 (PEP 383).
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Arrays and objects within each other; Python itself reads some hundreds.
inline constexpr std::size_t kJsonDepthMax = 128;

/// The same text as JSON: null in place of those numbers and of what is nested deeper than
/// kJsonDepthMax, which a reader that recurses cannot bear; U+FFFD in place of each lone half. What
/// is no JSON of Python's either stays as wrong as it was. Linear in time.
std::string strict_json(std::string_view text);

}  // namespace ddprun
