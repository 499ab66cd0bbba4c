#include "rendezvous/control/listener.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Room for a burst of agents; the kernel cuts it to net.core.somaxconn.
constexpr int kBacklog = 4096;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Address any_address(int family, std::uint16_t port) {
  Address address;
  if (family == AF_INET6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.size = sizeof v6;
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.size = sizeof v4;
  }
  return address;
}

Listening listen_on(const Address& address) {
  const int family = address.storage.ss_family;
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    return {Fd(), errno};
  }
  const int on = 1;
  const int off = 0;
  // The port of a job that just ended can be used again at once, though connections of it are in
  // TIME_WAIT. The option also lets two processes bind one port until one of them listens. The
  // other one gets EADDRINUSE from listen(), so both calls belong together here.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // Dual-stack whatever net.ipv6.bindv6only says: a peer may have no IPv6.
  if (family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) !=
          0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return {Fd(), errno};
  }
  return {std::move(socket), 0};
}

/// The 16 bytes of an address as IPv6, IPv4 mapped; false for other families.
bool to_bytes(const sockaddr* address, std::array<unsigned char, 16>& bytes) {
  bytes.fill(0);
  if (address != nullptr && address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(bytes.data() + 12, &v4.sin_addr, 4);
    return true;
  }
  if (address != nullptr && address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof v6);
    std::memcpy(bytes.data(), &v6.sin6_addr, 16);
    return true;
  }
  return false;
}

bool to_bytes(const std::string& text, std::array<unsigned char, 16>& bytes) {
  bytes.fill(0);
  if (::inet_pton(AF_INET, text.c_str(), bytes.data() + 12) == 1) {
    bytes[10] = bytes[11] = 0xff;
    return true;
  }
  const std::string without_scope = text.substr(0, text.find('%'));
  return ::inet_pton(AF_INET6, without_scope.c_str(), bytes.data()) == 1;
}

/// The address that the search binds there, too (LeaderSearch::bind). Others search at this one,
/// and the peers of this agent are sent it.
std::string loopback_of(const std::string& host) {
  std::array<unsigned char, 16> bytes;
  return is_loopback_text(host) && to_bytes(host, bytes) ? host : "127.0.0.1";
}

}  // namespace

Listening listen_at(const std::string& address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  Address where = any_address(v6 ? AF_INET6 : AF_INET, port);
  if (v6) {
    auto* storage = reinterpret_cast<sockaddr_in6*>(&where.storage);
    if (::inet_pton(AF_INET6, address.c_str(), &storage->sin6_addr) != 1) {
      return {Fd(), EINVAL};
    }
  } else {
    auto* storage = reinterpret_cast<sockaddr_in*>(&where.storage);
    if (::inet_pton(AF_INET, address.c_str(), &storage->sin_addr) != 1) {
      return {Fd(), EINVAL};
    }
  }
  return listen_on(where);
}

// One socket for both families. Two would need one free port in both, and the system chooses for
// one.
Listening listen_everywhere(std::uint16_t port) {
  // EAFNOSUPPORT: the kernel has no IPv6. EADDRNOTAVAIL: net.ipv6.conf.*.disable_ipv6 is set.
  Listening both = listen_on(any_address(AF_INET6, port));
  if (both.socket || (both.errno_value != EAFNOSUPPORT && both.errno_value != EADDRNOTAVAIL)) {
    return both;
  }
  return listen_on(any_address(AF_INET, port));
}

bool is_loopback_text(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

bool is_loopback_host(const std::string& host) {
  return host == "localhost" || is_loopback_text(host);
}

// On a loopback endpoint nobody from outside is meant to come, and an open port would invite
// scanners.
Listening listen_at_host(const std::string& host, std::uint16_t port) {
  return is_loopback_host(host) ? listen_at(loopback_of(host), port) : listen_everywhere(port);
}

Listening listen_ephemeral(const std::string& host, const std::vector<Endpoint>& endpoints) {
  const auto is_named = [&](std::uint16_t port) {
    return std::any_of(endpoints.begin(), endpoints.end(),
                       [port](const Endpoint& one) { return one.port == port; });
  };
  // The port of an endpoint is for the agent that is started there, maybe later than this one.
  Listening listening = listen_at_host(host, 0);
  std::vector<Listening> avoided;  // held, so that no port comes twice
  while (listening.socket && is_named(port_of(listening.socket))) {
    avoided.push_back(std::exchange(listening, listen_at_host(host, 0)));
  }
  return listening;
}

std::uint16_t port_of(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const int failed = ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  DDP_CHECK(failed == 0, "a listening socket has a name");
  // Port and family lie at the same place in both kinds of address.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::vector<std::string> own_addresses(const std::string& host) {
  if (is_loopback_host(host)) {
    return {loopback_of(host)};
  }
  constexpr std::size_t kMax = 16;
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return found;
  }
  // Link-local addresses are left out: without the scope, which differs per host, they lead
  // nowhere.
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr && found.size() < kMax; one = one->ifa_next) {
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0 ||
        one->ifa_addr == nullptr) {
      continue;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in v4{};
      std::memcpy(&v4, one->ifa_addr, sizeof v4);
      ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
      found.insert(found.begin(), text.data());  // IPv4 is tried first
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 v6{};
      std::memcpy(&v6, one->ifa_addr, sizeof v6);
      if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) == 0) {
        ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
        found.emplace_back(text.data());
      }
    }
  }
  return found;
}

// Compares bytes, since an address has several texts. This decides who hosts the endpoint, so it
// asks the kernel each time: addresses come and go, as a virtual one that moves to another host.
bool is_own_address(const std::string& address) {
  std::array<unsigned char, 16> wanted;
  if (!to_bytes(address, wanted)) {
    return false;
  }
  const bool v4 = wanted[10] == 0xff && wanted[11] == 0xff;
  const std::array<unsigned char, 16> none{};
  const bool any =
      wanted == none || (v4 && std::equal(wanted.begin() + 12, wanted.end(), none.begin()));
  if (any || (v4 && wanted[12] == 127)) {
    return true;
  }
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return address == "::1";
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    std::array<unsigned char, 16> bytes;
    if (to_bytes(one->ifa_addr, bytes) && bytes == wanted) {
      return true;
    }
  }
  return address == "::1";
}

}  // namespace ddprun
