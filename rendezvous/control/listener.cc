#include "rendezvous/control/listener.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "rendezvous/base/network_interfaces.h"
#include "rendezvous/base/socket.h"

namespace ddprun {
namespace {

/// Room for a burst of agents; the kernel cuts it to net.core.somaxconn.
constexpr int kBacklog = 4096;

/// The result of a bind of `rendezvous/base/socket`. Its SO_REUSEADDR also lets two processes bind
/// one port until one of them listens. The other one gets EADDRINUSE from listen(), so both calls
/// belong together here.
Listening listen_on(int bind_error, Fd socket) {
  if (bind_error == 0 && ::listen(socket.get(), kBacklog) != 0) {
    bind_error = errno;
  }
  return bind_error == 0 ? Listening{std::move(socket), 0} : Listening{Fd(), bind_error};
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
  return net::is_loopback(host) && to_bytes(host, bytes) ? host : "127.0.0.1";
}

}  // namespace

Listening listen_at(const std::string& address, std::uint16_t port) {
  Fd socket;
  const int error = net::bind_at(address, port, socket);
  return listen_on(error, std::move(socket));
}

// One socket for both families. Two would need one free port in both, and the system chooses for
// one.
Listening listen_everywhere(std::uint16_t port) {
  Fd socket;
  const int error = net::bind_everywhere(port, socket);
  return listen_on(error, std::move(socket));
}

bool is_loopback_host(const std::string& host) {
  return host == "localhost" || net::is_loopback(host);
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
  return net::local_end(socket.get()).port();
}

std::vector<std::string> own_addresses(const std::string& host) {
  if (is_loopback_host(host)) {
    return {loopback_of(host)};
  }
  constexpr std::size_t kMax = 16;
  std::vector<std::string> found;
  for (InterfaceAddress& one : interface_addresses()) {
    if (found.size() < kMax) {
      found.push_back(std::move(one.address));
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
