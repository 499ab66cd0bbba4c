// Addresses of connected sockets as text.
#pragma once

#include <string>

namespace ddprun {

/// A socket's own address and its peer's, numeric; IPv4 mapped into IPv6 is unmapped. Empty for
/// sockets without such addresses.
std::string local_address_of(int socket);
std::string peer_address_of(int socket);

}  // namespace ddprun
