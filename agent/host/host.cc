#include "agent/host/host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>

#include "agent/host/cpu_quota.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/socket.h"

namespace ddprun {
namespace {

/// Far more processors than any machine has; ends the search for a mask that is large enough.
constexpr int kProcessorsMax = 1 << 20;

int processors_of_affinity() {
  // The kernel refuses a mask smaller than its own, whose size it does not tell.
  for (int processors = 1024; processors <= kProcessorsMax; processors *= 2) {
    const std::size_t bytes = CPU_ALLOC_SIZE(processors);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
        CPU_ALLOC(processors), [](cpu_set_t* set) { CPU_FREE(set); });
    if (mask && ::sched_getaffinity(0, bytes, mask.get()) == 0) {
      return CPU_COUNT_S(bytes, mask.get());
    }
    if (errno != EINVAL) {
      break;
    }
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return std::nullopt;
  }
  std::string text;
  // Files of /proc have a size of 0 for stat(2), so this one is read until it ends.
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got <= 0) {
      return got == 0 ? std::optional(text) : std::nullopt;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

bool in_first_pid_namespace() {
  std::error_code error;
  const auto name = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return !error && name == "pid:[4026531836]";  // PROC_PID_INIT_INO, the same in every kernel
}

/// uname(2) asks no name service, so it neither waits for the network nor fails with it.
std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "localhost";
}

std::string full_host_name() {
  const std::string name = host_name();
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

int usable_cpus() {
  // Both count: schedulers pin jobs by cpusets, containers limit them by quotas.
  int processors = std::max(processors_of_affinity(), 1);
  // Rounded up: a quota of 1.5 keeps two processors busy for three quarters of the time.
  if (const auto quota = cpu_quota(read_file); quota && *quota < processors) {
    processors = std::max(static_cast<int>(std::ceil(*quota)), 1);
  }
  return processors;
}

}  // namespace ddprun
