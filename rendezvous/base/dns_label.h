// A DNS label (RFC 1123, 2.1): as namespaces of Kubernetes, and most of its names, are. Pure.
#pragma once

#include <algorithm>
#include <string_view>

namespace ddprun {

inline constexpr std::size_t kDnsLabelBytesMax = 63;

/// Lower case letters and digits of ASCII, whatever the locale.
constexpr bool is_lower_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/// With hyphens between them; Kubernetes takes no upper case.
constexpr bool is_dns_label(std::string_view text) {
  return !text.empty() && text.size() <= kDnsLabelBytesMax && is_lower_alphanumeric(text.front()) &&
         is_lower_alphanumeric(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
           return is_lower_alphanumeric(c) || c == '-';
         });
}

}  // namespace ddprun
