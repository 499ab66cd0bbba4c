#include "rendezvous/node/peer_addresses.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// As many as a message has room for (kAddressesMax of the codec): the list goes on to other nodes.
constexpr std::size_t kMax = 16;

bool serves_others(const std::string& address) {
  return !address.empty() && !address.starts_with("127.") && address != "::1" &&
         address.find('%') == std::string::npos;  // a link-local one means another link elsewhere
}

}  // namespace

std::vector<std::string> seen_first(std::vector<std::string> addresses, const std::string& seen) {
  const auto found = std::find(addresses.begin(), addresses.end(), seen);
  if (found != addresses.end()) {
    std::rotate(addresses.begin(), found, found + 1);
  } else if (serves_others(seen)) {
    addresses.resize(std::min(addresses.size(), kMax - 1));
    addresses.insert(addresses.begin(), seen);
    DDP_CHECK(addresses.size() <= kMax, "the addresses of a node have room in a message");
  }
  return addresses;
}

std::vector<std::string> addresses_to_try(const std::vector<std::string>& addresses,
                                          const std::vector<std::string>& own) {
  std::vector<std::string> others;
  std::copy_if(
      addresses.begin(), addresses.end(), std::back_inserter(others),
      [&](const std::string& one) { return std::find(own.begin(), own.end(), one) == own.end(); });
  return others.empty() ? addresses : others;
}

}  // namespace ddprun
