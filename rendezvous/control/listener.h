// Listener: the listening socket of the rendezvous endpoint, and whether an address is this
// machine's own. Plain sockets; internal to control.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/fd.h"

namespace ddprun {

/// Either a listening socket or the errno that kept us from it.
struct Listening {
  Fd socket;
  int errno_value = 0;
};

/// On a numeric address alone (loopback endpoints: nobody else is meant to come).
Listening listen_at(const std::string& address, std::uint16_t port);
/// On all addresses, IPv6 and IPv4 by one socket where the host allows, so that peers may come by
/// any interface.
Listening listen_everywhere(std::uint16_t port);
/// A literal loopback endpoint (docs/control-protocol.md).
bool is_loopback_host(const std::string& host);
/// At an endpoint of this machine: at its loopback address alone where its host means that
/// (localhost: 127.0.0.1), else everywhere.
Listening listen_at_host(const std::string& host, std::uint16_t port);
/// The same, at a port that the system chooses, but none that one of these endpoints has.
Listening listen_ephemeral(const std::string& host, const std::vector<Endpoint>& endpoints);
/// The port that a listening socket got.
std::uint16_t port_of(const Fd& socket);

/// The addresses by which others may reach this machine, numeric, at most 16: those of its
/// interfaces that are up, without link-local ones; at a loopback `host`, its address alone, which
/// listen_at_host() listens at.
std::vector<std::string> own_addresses(const std::string& host);

/// True when a numeric address is one of this machine's interfaces', or loopback, or 0.0.0.0 or ::,
/// which mean any of them.
bool is_own_address(const std::string& address);

}  // namespace ddprun
