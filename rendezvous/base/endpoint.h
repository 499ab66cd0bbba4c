// Endpoint: a host and a port as a user writes them. Text only: nothing is resolved here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace ddprun {

/// `host` has no brackets, also for IPv6. Port 0 asks for any free port.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// "host:port", with brackets round an IPv6 host.
std::string to_text(const Endpoint& endpoint);

/// Reads `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address (two colons or more, no
/// brackets: all of it is the host). An empty text means localhost. `default_port` < 0 means that
/// the port must be there. The rules for host characters and ports are torchrun's.
Result<Endpoint> parse_endpoint(std::string_view text, int default_port);

/// RFC 1035 2.3.4, without the root's label: no longer name can ever be resolved, and an agent that
/// waits for one waits until the join timeout.
inline constexpr std::size_t kHostBytesMax = 253;

/// A host name or address without a port; empty as for parse_endpoint().
bool is_host(const std::string& text);

}  // namespace ddprun
