#include "rendezvous/membership/rank_contenders.h"

#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {

void RankContenders::add(NodeJoined event) {
  DDP_CHECK(event.description.node_rank.has_value(), "a contender names the rank that it wants");
  DDP_CHECK(waits_for(event.description.node_rank) == nullptr, "one node at most waits for a rank");
  const NodeId id = event.node;
  const bool is_new = waiting_.emplace(id, std::move(event)).second;
  DDP_CHECK(is_new, "a node id is never used twice");
}

/// A walk over all of them, since few nodes ever wait: those that restarted before the loss of
/// their former life was noticed.
const NodeJoined* RankContenders::waits_for(std::optional<int> node_rank) const {
  for (const auto& [id, contender] : waiting_) {
    if (node_rank && contender.description.node_rank == node_rank) {
      return &contender;
    }
  }
  return nullptr;
}

std::optional<NodeJoined> RankContenders::take(NodeId id) {
  auto taken = waiting_.extract(id);
  if (!taken) {
    return std::nullopt;
  }
  return std::move(taken.mapped());
}

}  // namespace ddprun
