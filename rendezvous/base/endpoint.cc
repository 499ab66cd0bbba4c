#include "rendezvous/base/endpoint.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Torchrun's rule, [\w.:-], in ASCII; and '%' for the zone of a link-local address.
bool is_host_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':' ||
         c == '-' || c == '%';
}

bool is_ipv6(std::string_view text) {
  in6_addr ignored{};
  const auto zone = text.find('%');  // fe80::1%eth0
  const std::string address(text.substr(0, zone));
  return ::inet_pton(AF_INET6, address.c_str(), &ignored) == 1 &&
         (zone == std::string_view::npos || text.find(':', zone) == std::string_view::npos);
}

/// 0..65535 in 1 to 5 digits: no sign and no blank, and never too long for an int.
std::optional<std::uint16_t> parse_port(std::string_view text) {
  if (text.empty() || text.size() > 5 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  const int port = std::stoi(std::string(text));
  DDP_CHECK(port >= 0 && port <= 99'999, "five digits are a small number");
  if (port > 65535) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(port);
}

Error bad(std::string what, std::string_view text) {
  return Error{std::move(what), "endpoint '" + std::string(text) + "'",
               "write it as HOST:PORT, for example 10.0.0.1:29400 or [fd00::1]:29400"};
}

}  // namespace

std::string to_text(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}:{}", v6 ? "[" + endpoint.host + "]" : endpoint.host, endpoint.port);
}

/// By the number of colons: one parts host and port, several are an IPv6 address, with brackets or
/// without. The end of a bare address may look like a port. It is one only if the whole is no
/// address, as in ::1:29400.
Result<Endpoint> parse_endpoint(std::string_view text, int default_port) {
  DDP_CHECK(default_port <= 65535, "a default port is a port");
  std::string_view host = text;
  std::optional<std::string_view> port_text;
  if (text.find("://") != std::string_view::npos) {
    return bad("it is a URL", text);
  }
  if (text.find(',') != std::string_view::npos) {
    return bad("one endpoint is asked for here, and it has several", text);
  }
  if (!text.empty() && text.front() == '[') {
    const auto close = text.find(']');
    if (close == std::string_view::npos) {
      return bad("the bracket of the IPv6 address is not closed", text);
    }
    DDP_CHECK(close >= 1, "a bracket closes behind the one that opens");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty()) {
      if (rest.front() != ':') {
        return bad("only :PORT may follow the bracket", text);
      }
      port_text = rest.substr(1);
    }
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    const auto colon = text.find(':');
    host = text.substr(0, colon);
    port_text = text.substr(colon + 1);
  } else if (const auto last = text.rfind(':'); last != std::string_view::npos && !is_ipv6(text)) {
    host = text.substr(0, last);  // as torchrun reads ::1:29400
    port_text = text.substr(last + 1);
    if (!is_ipv6(host)) {
      return bad("it has several colons and is no IPv6 address", text);
    }
  }
  // Only a text that is empty as a whole means localhost: in ":29400" the host was forgotten.
  if (host.empty()) {
    if (!text.empty()) {
      return bad("the host is missing", text);
    }
    host = "localhost";
  }
  if (!std::all_of(host.begin(), host.end(), is_host_char)) {
    return bad("the host has a character that no host name or address has", text);
  }
  Endpoint endpoint{std::string(host), 0};
  if (port_text) {
    const auto port = parse_port(*port_text);
    if (!port) {
      return bad("the port '" + std::string(*port_text) + "' is not a number from 0 to 65535",
                 text);
    }
    endpoint.port = *port;
  } else if (default_port < 0) {
    return bad("the port is missing", text);
  } else {
    endpoint.port = static_cast<std::uint16_t>(default_port);
  }
  DDP_CHECK(!endpoint.host.empty(), "an endpoint has a host");
  return endpoint;
}

bool is_host(const std::string& text) {
  // A text without a port takes whatever default it is offered; one default alone could be its own.
  constexpr int kPorts[] = {1, 2};
  return std::all_of(std::begin(kPorts), std::end(kPorts), [&](int port) {
    const auto endpoint = parse_endpoint(text, port);
    return endpoint && endpoint->port == port && endpoint->host.size() <= kHostBytesMax;
  });
}

}  // namespace ddprun
