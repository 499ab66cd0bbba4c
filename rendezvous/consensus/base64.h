// base64 with padding (RFC 4648, 4): bytes in a text, which JSON needs. Pure.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

std::string base64(const std::string& bytes);
/// None: it is no base64, or has blanks in it.
std::optional<std::string> from_base64(const std::string& text);

}  // namespace ddprun
