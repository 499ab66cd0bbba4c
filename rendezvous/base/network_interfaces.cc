#include "rendezvous/base/network_interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace ddprun {
namespace {

/// Copied first: a sockaddr is not aligned as what it stands for.
std::string numeric_v4(const sockaddr* address) {
  sockaddr_in v4{};
  std::memcpy(&v4, address, sizeof v4);
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  return text.data();
}

/// The last address of the network. An interface may have none set, and the kernel sends there all
/// the same; empty where the network has no room for one.
std::string broadcast_of(const sockaddr* address, const sockaddr* netmask) {
  sockaddr_in v4{};
  sockaddr_in mask{};
  std::memcpy(&v4, address, sizeof v4);
  std::memcpy(&mask, netmask, sizeof mask);
  const std::uint32_t hosts = ~ntohl(mask.sin_addr.s_addr);
  v4.sin_addr.s_addr |= htonl(hosts);
  sockaddr last{};
  std::memcpy(&last, &v4, sizeof last);
  return hosts < 3 ? std::string() : numeric_v4(&last);
}

/// Empty for a link-local one: its scope differs on each host.
std::string numeric_v6(const sockaddr* address) {
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof v6);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) == 0) {
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

}  // namespace

/// Those that are up. Loopback leads to this host alone, whoever asks.
std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> found;
  std::vector<InterfaceAddress> found_v6;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return found;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0 ||
        one->ifa_addr == nullptr) {
      continue;
    }
    if (one->ifa_addr->sa_family == AF_INET) {
      const bool has_broadcast =
          (one->ifa_flags & IFF_BROADCAST) != 0 && one->ifa_netmask != nullptr;
      found.push_back({one->ifa_name, numeric_v4(one->ifa_addr),
                       has_broadcast ? broadcast_of(one->ifa_addr, one->ifa_netmask) : ""});
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      if (std::string address = numeric_v6(one->ifa_addr); !address.empty()) {
        found_v6.push_back({one->ifa_name, std::move(address), {}});
      }
    }
  }
  // An IPv4 address is what most names mean, and what people compare with.
  found.insert(found.end(), found_v6.begin(), found_v6.end());
  return found;
}

/// For a sentence: a host of a cluster may have dozens, of containers and virtual machines.
std::string addresses_text(const std::vector<InterfaceAddress>& addresses) {
  constexpr std::size_t kMost = 8;
  const std::size_t shown = std::min(addresses.size(), kMost);
  const bool all = shown == addresses.size();
  std::string text = shown == 0 ? kNoAddressText : "";
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = all && i + 1 == shown;
    text += i == 0 ? "" : last ? " and " : ", ";
    text += addresses[i].address + " (" + addresses[i].interface + ")";
  }
  return all ? text : text + " and " + std::to_string(addresses.size() - shown) + " more";
}

}  // namespace ddprun
