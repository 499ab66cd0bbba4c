// HttpCall, HttpReply: a question to a server, and what it says. Pure; http_client.h sends.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

struct HttpCall {
  std::string method = "GET";
  std::string target;  ///< path and query
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::chrono::milliseconds patience{5'000};  ///< from sending to the end of the answer
};

struct HttpReply {
  unsigned status = 0;
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};

  /// The first of that name, in any case; empty: none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

}  // namespace ddprun
