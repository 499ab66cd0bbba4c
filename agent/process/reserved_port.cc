#include "agent/process/reserved_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace ddprun {
namespace {

/// A socket bound to port 0 of every address of the family; its errno otherwise.
int bind_any(int family, Fd& socket, std::uint16_t& port) {
  socket.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) {
    return errno;
  }
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  socklen_t size = family == AF_INET6 ? sizeof v6 : sizeof v4;
  auto* address =
      family == AF_INET6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  if (family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.get(), address, size) != 0 ||
      ::getsockname(socket.get(), address, &size) != 0) {
    return errno;
  }
  port = ntohs(family == AF_INET6 ? v6.sin6_port : v4.sin_port);
  return 0;
}

}  // namespace

Result<ReservedPort> ReservedPort::any() {
  Fd socket;
  std::uint16_t port = 0;
  int error = bind_any(AF_INET6, socket, port);
  if (error != 0) {
    error = bind_any(AF_INET, socket, port);
  }
  if (error != 0) {
    return errno_error(error, "cannot reserve a port for the workers' own store", "any port");
  }
  return ReservedPort(std::move(socket), port);
}

}  // namespace ddprun
