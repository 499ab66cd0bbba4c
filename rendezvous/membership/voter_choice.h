// choose_voters: which nodes of the next world vote. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "rendezvous/membership/voters_here.h"

namespace ddprun {

/// Of `members`, in the order of their ranks, and `witnesses`, all of which are here: up to
/// `voters_max` nodes, witnesses last, then the connections of `self`, the coordinator's own voter.
/// A node that is here twice may be chosen twice; it votes once.
[[nodiscard]] std::vector<NodeId> choose_voters(const VotersHere& here, VoterId self,
                                                std::size_t voters_max,
                                                const std::vector<NodeId>& members,
                                                const std::vector<NodeId>& witnesses);

}  // namespace ddprun
