#include "rendezvous/control/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

namespace ddprun {
namespace {

/// A dual-stack socket names an IPv4 peer as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2). Without the prefix
/// one host has one text, whatever socket it came by: texts of addresses are compared.
std::string address_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) != 0;
    ::inet_ntop(mapped ? AF_INET : AF_INET6, v6.sin6_addr.s6_addr + (mapped ? 12 : 0), text.data(),
                text.size());
  }
  return text.data();
}

}  // namespace

std::string local_address_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  // On an error the family stays unset, and the text empty.
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address_text(address);
}

std::string peer_address_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address_text(address);
}

}  // namespace ddprun
