// RankContenders: nodes that came with a --node-rank that another node has. Pure.
//
// Each was welcomed and waits; it is no node of the job yet (job_nodes.h). At most one waits for a
// rank: a second is rejected at once. Membership decides what becomes of them when the holder of
// the rank is lost, or turns out to be alive.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "rendezvous/membership/event.h"

namespace ddprun {

class RankContenders {
 public:
  /// It has a --node-rank, and no other waits for that one.
  void add(NodeJoined event);
  /// Who waits for this rank; none without a rank.
  [[nodiscard]] const NodeJoined* waits_for(std::optional<int> node_rank) const;
  /// It waits no more. None: it did not wait.
  std::optional<NodeJoined> take(NodeId id);
  /// The job is over: all are sent its summary as the nodes of the job are.
  void clear() { waiting_.clear(); }

  [[nodiscard]] bool contains(NodeId id) const { return waiting_.contains(id); }
  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

 private:
  std::map<NodeId, NodeJoined> waiting_;
};

}  // namespace ddprun
