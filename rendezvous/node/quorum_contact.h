// QuorumContact: when a coordinator was last certainly followed by a quorum of the configuration in
// use, by its own clock (docs/failover.md). Pure.
#pragma once

#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"

namespace ddprun {

/// Before any time.
inline constexpr Instant kNever = Instant::min() / 2;

/// A node that is connected: who it is, and when it certainly followed. `local`: the coordinator's
/// own.
struct FollowerContact {
  VoterId voter{};
  Instant fresh = kNever;
  bool local = false;
};

/// When a quorum of the configuration followed, all at once.
Instant quorum_contact(const Configuration& configuration,
                       const std::vector<FollowerContact>& followers);

}  // namespace ddprun
