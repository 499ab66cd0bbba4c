// WorldNotice: what nodes that are in no world are told of the one that others were handed. Pure.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/membership/command.h"
#include "rendezvous/membership/leadership.h"

namespace ddprun {

/// To these nodes, of the world in use, which is of `attempt`; none where there is nobody to tell,
/// or nothing that a node would have to know later. `self` is the coordinator's own voter.
std::optional<TellWorld> world_notice(std::vector<NodeId> nodes, const Leadership& leadership,
                                      VoterId self, std::optional<AttemptNumber> attempt);

}  // namespace ddprun
