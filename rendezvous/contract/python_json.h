// What Python's json module writes and reads beyond JSON (RFC 8259): `NaN`, `Infinity` and
// `-Infinity` (json.dump's allow_nan), and halves of surrogate pairs, as `os.fsdecode` makes them
// of a file name that is no UTF-8 (PEP 383). Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// The same text as JSON: null in place of those numbers, U+FFFD in place of each lone half. What
/// is no JSON of Python's either stays as wrong as it was.
std::string strict_json(std::string_view text);

}  // namespace ddprun
