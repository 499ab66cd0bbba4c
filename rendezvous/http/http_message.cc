#include "rendezvous/http/http_message.h"

#include <algorithm>
#include <cctype>

namespace ddprun {
namespace {

/// Names of headers are ASCII, in any case (RFC 9110, 5.1).
bool is_same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::string_view HttpReply::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [name](const auto& header) {
    return is_same_name(header.first, name);
  });
  return found != headers.end() ? std::string_view(found->second) : std::string_view();
}

}  // namespace ddprun
