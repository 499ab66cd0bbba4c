#include "rendezvous/control/master_address.h"

#include <cstddef>
#include <map>

#include "rendezvous/base/socket.h"

namespace ddprun {

// Loopback loses against any other address, however many agents came by it: they are all on this
// machine, and reach its other addresses as well.
std::string common_address(const std::vector<std::string>& reached) {
  std::map<std::string, std::size_t> times;
  for (const std::string& address : reached) {
    ++times[address];
  }
  const std::string* best = nullptr;
  for (const std::string& address : reached) {  // not the map: the first of equals
    const bool better =
        best == nullptr || (net::is_loopback(*best) && !net::is_loopback(address)) ||
        (net::is_loopback(*best) == net::is_loopback(address) && times[address] > times[*best]);
    best = better ? &address : best;
  }
  return best == nullptr ? "127.0.0.1" : *best;
}

}  // namespace ddprun
