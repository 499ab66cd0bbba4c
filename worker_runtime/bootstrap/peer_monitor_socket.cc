#include "worker_runtime/bootstrap/peer_monitor_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace ddp {
namespace {

using ddprun::Error;
using ddprun::Fd;
using ddprun::Result;

void set_option(int fd, int level, int name, int value) {
  // Each of these is an improvement, none a need: a kernel that refuses one is no reason to fail.
  (void)::setsockopt(fd, level, name, &value, sizeof(value));
}

std::string address_text(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  } else if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    } else {
      ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    }
  }
  return text;
}

Result<Fd> connect_one(const addrinfo& address, SocketDeadline deadline) {
  Fd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return ddprun::errno_error(errno, "cannot make a socket");
  }
  tune(fd.get());
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return fd;
  }
  if (errno != EINPROGRESS) {
    return ddprun::errno_error(errno, "cannot connect");
  }
  if (!wait_for(fd.get(), POLLOUT, deadline)) {
    return Error("cannot connect: no answer in time", "", "");
  }
  int code = 0;
  socklen_t size = sizeof(code);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) {
    return ddprun::errno_error(code, "cannot connect");
  }
  return fd;
}

}  // namespace

Result<Fd> listen_anywhere(std::uint16_t port) {
  const auto failed = [port](int code) {
    return code == EADDRINUSE
               ? Error("port " + std::to_string(port) + " is taken by another program", "",
                       "choose another MASTER_PORT")
               : ddprun::errno_error(code, "cannot open a port for the other ranks");
  };
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  const sockaddr* address = reinterpret_cast<const sockaddr*>(&any6);
  socklen_t size = sizeof(any6);
  Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd) {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  } else {  // a machine without IPv6
    fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    address = reinterpret_cast<const sockaddr*>(&any4);
    size = sizeof(any4);
  }
  if (!fd) {
    return failed(errno);
  }
  // A given port is used again by the next attempt, while connections of the last one linger.
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return failed(errno);
  }
  return fd;
}

std::uint16_t local_port(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

Result<Fd> connect_to(const std::string& host, std::uint16_t port, SocketDeadline deadline) {
  const std::string where = host + " port " + std::to_string(port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    return Error(std::string("cannot be resolved: ") + ::gai_strerror(code), host,
                 "check MASTER_ADDR");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Result<Fd> last = Error("has no address", where, "");
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    last = connect_one(*address, deadline);
    if (last) {
      return last;
    }
  }
  return Error(last.error().what, where, "");
}

void tune(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

int milliseconds_left(SocketDeadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000));
}

bool wait_for(int fd, short events, SocketDeadline deadline) {
  for (;;) {
    pollfd item{.fd = fd, .events = events, .revents = 0};
    const int count = ::poll(&item, 1, milliseconds_left(deadline));
    if (count > 0) {
      return true;
    }
    if (count == 0 || errno != EINTR) {
      return false;
    }
  }
}

std::string peer_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  ::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  return address_text(storage);
}

std::string own_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  return address_text(storage);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

bool send_all(int fd, std::string_view bytes, SocketDeadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (sent < 0 && errno == EINTR) {
      continue;
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!wait_for(fd, POLLOUT, deadline)) {
        return false;
      }
    } else {
      return false;
    }
  }
  return true;
}

bool receive_some(int fd, std::string& bytes) {
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got > 0) {
      bytes.append(buffer, static_cast<std::size_t>(got));
      if (static_cast<std::size_t>(got) < sizeof(buffer)) {
        return true;
      }
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
}

}  // namespace ddp
