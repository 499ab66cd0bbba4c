// NetworkInterfaces: the addresses by which other machines may reach this one, as getifaddrs(3)
// lists them.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

struct InterfaceAddress {
  std::string interface;  ///< "eth0"
  std::string address;    ///< numeric
  std::string broadcast;  ///< numeric, of its IPv4 network; empty where that has none
};

/// Of the interfaces that are up, without loopback and link-local addresses: those lead nowhere on
/// another host. IPv4 first, else in the kernel's order.
std::vector<InterfaceAddress> interface_addresses();

/// What is said of none.
inline constexpr const char* kNoAddressText = "no address but loopback";

/// For people: "10.0.0.1 (eth0) and 10.1.0.1 (hsn0)", at most eight; kNoAddressText.
std::string addresses_text(const std::vector<InterfaceAddress>& addresses);

}  // namespace ddprun
