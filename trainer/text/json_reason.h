// json_reason: why a text is no valid JSON, as part of a sentence. Only for sources that parse
// JSON.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rendezvous/base/utf8.h"

namespace ddp {

/// Without the name and number of the exception, which the library puts in front. It quotes what it
/// read last: bytes of that which are no UTF-8 are told as the library tells control characters,
/// "<FF>", since the sentence becomes part of logs that are.
inline std::string json_reason(const nlohmann::json::exception& problem) {
  std::string_view rest = problem.what();
  const auto end = rest.find("] ");
  rest.remove_prefix(end == std::string_view::npos ? 0 : end + 2);
  std::string reason;
  while (!rest.empty()) {
    const std::size_t good = ddprun::utf8_prefix_length(rest);
    reason += rest.substr(0, good);
    rest.remove_prefix(good);
    if (!rest.empty()) {
      reason += fmt::format("<{:02X}>", static_cast<unsigned char>(rest.front()));
      rest.remove_prefix(1);
    }
  }
  return reason;
}

}  // namespace ddp
