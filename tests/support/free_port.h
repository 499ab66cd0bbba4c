// A free port for a rendezvous endpoint.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/fd.h"

namespace ddprun::test {

/// Whether this process is the one that has the port: an abstract socket of its name says so to
/// the other tests (free_port.py does the same) until this process ends.
inline bool claim_port(std::uint16_t port) {
  static std::vector<Fd> claims;
  Fd claim(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "ddprun-test-port-" + std::to_string(port);
  std::memcpy(name.sun_path + 1, text.data(), text.size());  // the first byte stays 0: abstract
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (::bind(claim.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0) {
    return false;
  }
  claims.push_back(std::move(claim));
  return true;
}

/// Whether a socket can be bound to it on every address of this machine.
inline bool is_unused(std::uint16_t port) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// A TCP port that nobody uses, of no other test while this process lives, and below those that the
/// system hands out: the agents and stores of jobs beside this test get theirs from there, and one
/// of them would answer in place of this test's coordinator.
inline std::uint16_t free_port() {
  constexpr int kLowest = 10'000;
  int highest = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> highest;
  if (--highest <= kLowest) {
    throw std::runtime_error("the system hands out all ports above 10000");
  }
  static std::mt19937 random(std::random_device{}());
  for (int tries = 0; tries < 1'000; ++tries) {
    const auto port =
        static_cast<std::uint16_t>(std::uniform_int_distribution<int>(kLowest, highest)(random));
    if (claim_port(port) && is_unused(port)) {
      return port;
    }
  }
  throw std::runtime_error("no free TCP port");
}

}  // namespace ddprun::test
