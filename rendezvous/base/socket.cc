#include "rendezvous/base/socket.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "rendezvous/base/check.h"

namespace ddprun::net {
namespace {

using Clock = std::chrono::steady_clock;

const sockaddr* as_sockaddr(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

/// A copy: a cast would let the compiler assume that the two never share bytes.
template <class Kind>
Kind as(const Address& address) {
  Kind kind{};
  std::memcpy(&kind, &address.storage, sizeof kind);
  return kind;
}

/// Zeroed but for family and port: all addresses are 0 in both families.
Address any_address(int family, std::uint16_t port) {
  Address address;
  address.storage.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {
    auto v6 = as<sockaddr_in6>(address);
    v6.sin6_port = htons(port);
    std::memcpy(&address.storage, &v6, address.size = sizeof v6);
  } else {
    auto v4 = as<sockaddr_in>(address);
    v4.sin_port = htons(port);
    std::memcpy(&address.storage, &v4, address.size = sizeof v4);
  }
  return address;
}

int bind_to(const Address& address, Fd& socket) {
  const int family = address.storage.ss_family;
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return errno;
  }
  const int on = 1;
  const int off = 0;
  // A given port is used again by the next attempt, while connections of the last one linger.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // The kernel's default is a setting of the machine (net.ipv6.bindv6only).
  if (family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(fd.get(), as_sockaddr(address), address.size) != 0) {
    return errno;
  }
  socket = std::move(fd);
  return 0;
}

}  // namespace

/// A socket for both families names an IPv4 peer as ::ffff:10.0.0.1. People and other programs
/// write 10.0.0.1, and comparisons rely on one text for one address.
std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto v4 = as<sockaddr_in>(*this);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (storage.ss_family == AF_INET6) {
    const auto v6 = as<sockaddr_in6>(*this);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text);
    } else {
      ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    }
  }
  return text;
}

std::uint16_t Address::port() const {
  if (storage.ss_family == AF_INET6) {
    return ntohs(as<sockaddr_in6>(*this).sin6_port);
  }
  return storage.ss_family == AF_INET ? ntohs(as<sockaddr_in>(*this).sin_port) : 0;
}

std::string Address::text() const {
  const std::string numeric = host();
  if (numeric.empty()) {
    return {};
  }
  return fmt::format(
      "{}:{}", numeric.find(':') != std::string::npos ? "[" + numeric + "]" : numeric, port());
}

/// In the resolver's order, which is the machine's policy (RFC 6724, gai.conf): it is not for us to
/// prefer a family.
Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;  // else each address comes once per kind of socket
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      code != 0) {
    return Error{
        std::string("the host name does not resolve (") + ::gai_strerror(code) + ")", host, {}};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    DDP_CHECK(info->ai_addrlen <= sizeof(sockaddr_storage), "every address fits its storage");
    Address& address = addresses.emplace_back();
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.size = info->ai_addrlen;
  }
  DDP_CHECK(!addresses.empty(), "a name that resolves has an address");
  return addresses;
}

Address local_end(int fd) {
  Address address;
  address.size = sizeof address.storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
  return address;
}

/// A connection that has broken meanwhile has no peer any more (ENOTCONN): then the texts are
/// empty.
Address far_end(int fd) {
  Address address;
  address.size = sizeof address.storage;
  ::getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
  return address;
}

/// All of 127.0.0.0/8: Debian's /etc/hosts gives the machine's own name 127.0.1.1.
bool is_loopback(const std::string& numeric_host) {
  return numeric_host.starts_with("127.") || numeric_host == "::1";
}

int bind_everywhere(std::uint16_t port, Fd& socket) {
  const int error = bind_to(any_address(AF_INET6, port), socket);
  // A kernel without IPv6 says the one, a container without its addresses the other.
  return error == EAFNOSUPPORT || error == EADDRNOTAVAIL
             ? bind_to(any_address(AF_INET, port), socket)
             : error;
}

int bind_at(const std::string& numeric_host, std::uint16_t port, Fd& socket) {
  const bool v6 = numeric_host.find(':') != std::string::npos;
  Address address = any_address(v6 ? AF_INET6 : AF_INET, port);
  void* const bytes =
      v6 ? static_cast<void*>(&reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr)
         : static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr);
  return ::inet_pton(address.storage.ss_family, numeric_host.c_str(), bytes) == 1
             ? bind_to(address, socket)
             : EINVAL;
}

/// Not blocking: a host that drops packets would hold a blocking connect() for two minutes. The
/// result of a connect that took its time is in SO_ERROR (connect(2), EINPROGRESS).
int try_connect(const Address& address, Deadline deadline, Fd& socket) {
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return errno;
  }
  if (::connect(fd.get(), as_sockaddr(address), address.size) != 0) {
    if (errno != EINPROGRESS) {
      return errno;
    }
    if (!wait_ready(fd.get(), POLLOUT, deadline)) {
      return ETIMEDOUT;
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      return error;
    }
  }
  // Nagle's wait for the acknowledgement of the piece before would cost 40 ms a request.
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  socket = std::move(fd);
  return 0;
}

bool has_ended(int socket) {
  char byte = 0;
  const ssize_t size = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

/// True also for an error or a hang-up: the call that follows finds out which, and reports it.
bool wait_ready(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, milliseconds_left(deadline));
    if (ready > 0 || (ready < 0 && errno != EINTR)) {
      return true;
    }
    // poll() may be a millisecond early, and waits for an hour at most.
    if (ready == 0 && Clock::now() >= deadline) {
      return false;
    }
  }
}

/// Rounded up: rounded down, the last millisecond of each wait would be a loop that never sleeps.
int milliseconds_left(Deadline deadline) {
  constexpr long long kHour = 3'600'000;  // who waits longer comes back, and is asked again
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, kHour));
}

}  // namespace ddprun::net
