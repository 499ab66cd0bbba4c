// VotersHere: the nodes that have joined this coordinator, as voters: the process behind each
// connection, what its hello said of its votes, and the voters that died while they followed. Pure.
//
// It counts voters; what a count suffices for is leadership.h's to say.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "rendezvous/membership/configuration.h"

namespace ddprun {

/// One connection of an agent.
class VoterHere {
 public:
  VoterHere(VoterId voter, const Promise& promise, const std::optional<Past>& past);

  [[nodiscard]] VoterId voter() const { return voter_; }
  /// Of its hello; none once it has acknowledged a plan.
  [[nodiscard]] const Promise& promise() const;
  /// The last world that it was part of, of its hello. Null: none.
  [[nodiscard]] const Past* past() const;
  /// It voted for a candidate other than itself and `self`: that one may lead.
  [[nodiscard]] bool voted_for_another(VoterId self) const;
  /// It has acknowledged a plan of this coordinator, and is bound to no other candidate any more.
  void release();

  bool beyond = false;  ///< it stores a configuration that this coordinator does not know
  Term above{};         ///< the term of a plan for it has to be a later one

 private:
  struct Memory {
    Promise promise;
    std::optional<Past> past;
  };
  VoterId voter_{};
  /// Null where the hello brought neither: so it is for nearly all nodes of a job that begins, and
  /// a coordinator of ten thousand saves more than a MiB.
  std::unique_ptr<Memory> memory_;
};

class VotersHere {
 public:
  /// Voters of one configuration. Those that are beyond are never counted.
  struct Count {
    std::size_t free = 0;   ///< that are here, and voted for nobody who may lead
    std::size_t bound = 0;  ///< that are here, and may have made another one the coordinator
    std::size_t dead = 0;
    bool own = false;  ///< the coordinator's own voter is one of the free: half is enough then
  };

  /// `node` is not here yet.
  VoterHere& add(NodeId node, VoterHere here);
  /// Null: it is not here.
  [[nodiscard]] const VoterHere* find(NodeId node) const;
  [[nodiscard]] VoterHere* find(NodeId node);
  /// Of a node that is here.
  [[nodiscard]] const VoterHere& at(NodeId node) const;
  VoterHere remove(NodeId node);

  [[nodiscard]] bool is_here(VoterId voter) const;
  /// Oldest first; usually one. A node may be here twice, before its old connection is known to be
  /// gone. An agent of a job without failover has no number, and none.
  [[nodiscard]] std::vector<NodeId> connections_of(VoterId voter) const;

  /// It died while it followed, so it votes for nobody any more: that is as good as following.
  void died(VoterId voter) { dead_.insert(voter); }
  /// It is here, and voted for nobody who may lead. `among` as for count().
  [[nodiscard]] bool is_free(VoterId voter, const std::set<VoterId>* among) const;
  /// Voters of other configurations decide nothing any more.
  void forget_dead_but_of(const Configuration& configuration);
  [[nodiscard]] const std::set<VoterId>& dead() const { return dead_; }

  /// With `among`, only these voters count as here. `self` is the coordinator's own.
  [[nodiscard]] Count count(const Configuration& configuration, VoterId self,
                            const std::set<VoterId>* among) const;
  /// The voters of these nodes, without a number.
  [[nodiscard]] Configuration configuration_of(const std::vector<NodeId>& nodes) const;

  [[nodiscard]] auto begin() { return nodes_.begin(); }
  [[nodiscard]] auto end() { return nodes_.end(); }
  [[nodiscard]] auto begin() const { return nodes_.begin(); }
  [[nodiscard]] auto end() const { return nodes_.end(); }

 private:
  /// Of a voter that is here, by all of its connections: the worst one counts.
  enum class Standing : std::uint8_t { free, bound, beyond };
  [[nodiscard]] Standing standing_of(VoterId voter, const std::set<VoterId>* among) const;
  [[nodiscard]] bool leads_nobody(VoterId candidate, const std::set<VoterId>* among) const;

  std::map<NodeId, VoterHere> nodes_;
  std::set<std::pair<VoterId, NodeId>> connections_;  ///< of nodes_
  std::set<VoterId> dead_;
};

}  // namespace ddprun
