#include "rendezvous/control/store_place.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/control/listener.h"

namespace ddprun {

/// The agent that hosts the coordinator came by a socket pair, which has no address.
MembersReach reach_of(const std::map<NodeId, CoordinatorPeer>& peers,
                      const std::vector<NodeId>& members) {
  MembersReach found{{}, own_addresses({})};
  for (const NodeId id : members) {
    const auto peer = peers.find(id);
    if (peer != peers.end() && !peer->second.local) {
      found.reached.push_back(peer->second.reached_address);
      peer->second.add_addresses_to(found.addresses);
    }
  }
  return found;
}

/// An agent that came by loopback is on this machine, and reaches any of its addresses.
void StorePlace::tell(World& world, const CoordinatorPeer& peer, const std::string& given) const {
  DDP_CHECK(port != 0, "a store has a port");
  world.master_port = port;
  world.master_addr = !given.empty()                                         ? given
                      : peer.local || net::is_loopback(peer.reached_address) ? common_address
                                                                             : peer.reached_address;
}

}  // namespace ddprun
