#include "agent/host/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>

#include "rendezvous/base/socket.h"
#include "rendezvous/base/text.h"

namespace ddprun {

bool in_first_pid_namespace() {
  std::error_code error;
  const auto name = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return !error && name == "pid:[4026531836]";  // PROC_PID_INIT_INO, the same in every kernel
}

/// uname(2) asks no name service, so it neither waits for the network nor fails with it.
std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? printable(names.nodename) : "localhost";
}

std::string full_host_name() {
  std::string name = host_name();
  addrinfo hints{};
  hints.ai_flags = AI_CANONNAME;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) {
    return name;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const bool is_longer = found->ai_canonname != nullptr &&
                         std::string_view(found->ai_canonname).starts_with(name + ".");
  return is_longer ? found->ai_canonname : name;
}

bool is_loopback_name(const std::string& name) {
  const auto addresses = net::resolve(name, 0);
  return addresses &&
         std::all_of(addresses->begin(), addresses->end(),
                     [](const net::Address& one) { return net::is_loopback(one.host()); });
}

std::string network_interface_of(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    // Interfaces without an address are listed, too. Other nodes cannot reach the loopback.
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    const int family = one->ifa_addr->sa_family;
    const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    // getnameinfo(3) puts the scope ("%eth0") behind a link-local IPv6 address; `address` may have
    // none.
    std::array<char, NI_MAXHOST> text{};
    if ((family == AF_INET || family == AF_INET6) &&
        ::getnameinfo(one->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
            0 &&
        std::string_view(text.data()).substr(0, address.size()) == address &&
        (text[address.size()] == '\0' || text[address.size()] == '%')) {
      return one->ifa_name;
    }
  }
  return {};
}

}  // namespace ddprun
