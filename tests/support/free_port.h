// A free port for a rendezvous endpoint.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <stdexcept>

#include "rendezvous/base/fd.h"

namespace ddprun::test {

/// A TCP port that nobody listened on a moment ago, on every address of this machine. The kernel
/// hands ports out in a random order, so that two tests at once practically never get the same.
inline std::uint16_t free_port() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), any, size) != 0 || ::getsockname(listener.get(), any, &size) != 0) {
    throw std::runtime_error("no free TCP port");
  }
  return ntohs(address.sin_port);
}

}  // namespace ddprun::test
