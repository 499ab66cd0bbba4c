// Quorum: how many nodes of a world may decide for it. Pure.
//
// Two groups that decide for the same world must have a node in common, or a cut network would go
// on as two jobs. An even split is decided for the coordinator's half: it may go on with half of
// the nodes (of two nodes, alone), its successors need more than half.
#pragma once

#include <cstddef>

namespace ddprun {

/// For the coordinator that leads; `here` counts its own node where that is one of the world.
constexpr bool keeps_quorum(std::size_t here, std::size_t world, bool coordinator_in_world) {
  return coordinator_in_world ? 2 * here >= world : 2 * here > world;
}

/// For a successor.
constexpr bool gains_quorum(std::size_t votes, std::size_t world) {
  return 2 * votes > world;
}

}  // namespace ddprun
