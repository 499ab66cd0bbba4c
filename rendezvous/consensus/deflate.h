// DEFLATE without a header (RFC 1951): what repeats itself becomes short. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace ddprun {

std::string deflated(const std::string& bytes);
/// None: nobody deflated that, or it would become more than `bytes_max`. There is no checksum: what
/// somebody cuts off may not be missed.
std::optional<std::string> inflated(const std::string& bytes, std::size_t bytes_max);

}  // namespace ddprun
