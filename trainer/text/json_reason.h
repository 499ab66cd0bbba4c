// json_reason: why a text is no valid JSON, as part of a sentence. Only for sources that parse
// JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ddp {

/// Without the name and number of the exception, which the library puts in front.
inline std::string json_reason(const nlohmann::json::exception& problem) {
  const std::string_view text = problem.what();
  const auto end = text.find("] ");
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

}  // namespace ddp
