// StorePlace: where the store of an attempt is, and by which address each node is to reach it.
// Internal to control.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/control/coordinator_peer.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// What the members' connections tell of this host, and of who may come to its store.
struct MembersReach {
  std::vector<std::string> reached;    ///< this host, as the agents name it
  std::vector<std::string> addresses;  ///< of the nodes, and of this one
};

/// A member without a connection (a consensus service) has no part in it.
MembersReach reach_of(const std::map<NodeId, CoordinatorPeer>& peers,
                      const std::vector<NodeId>& members);

struct StorePlace {
  std::uint16_t port = 0;
  std::string common_address;  ///< master_address.h

  /// Into the world that is assigned to `peer`. `given`: by the user, for all nodes; may be empty.
  void tell(World& world, const CoordinatorPeer& peer, const std::string& given) const;
};

}  // namespace ddprun
