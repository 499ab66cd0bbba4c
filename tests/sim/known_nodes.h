// KnownNodes: the nodes that a coordinator has welcomed and not lost, for the observer: by their
// number, and by their voter, so that a quorum is looked for among a few of thousands.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"

namespace ddprun::sim {

struct KnownNode {
  VoterId voter{};
  int workers = 0;
  bool witness = false;
  bool leaving = false;          ///< was asked to, and runs no more workers
  std::vector<VoterId> granted;  ///< it voted for these, and may have made one the coordinator
  bool beyond = false;  ///< has prepared for a newer configuration than its coordinator knew then
};

class KnownNodes {
 public:
  /// Null: it is not here.
  [[nodiscard]] const KnownNode* find(NodeId id) const {
    const auto found = nodes_.find(id);
    return found != nodes_.end() ? &found->second : nullptr;
  }
  [[nodiscard]] bool contains(NodeId id) const { return nodes_.contains(id); }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Of them, those that can run workers.
  [[nodiscard]] std::size_t workers() const { return workers_; }
  [[nodiscard]] const std::map<NodeId, KnownNode>& all() const { return nodes_; }
  [[nodiscard]] bool is_here(VoterId voter) const {
    const auto first = of_voter_.lower_bound({voter, NodeId{}});
    return first != of_voter_.end() && first->first == voter;
  }
  /// True for any connection of this voter.
  template <class Condition>
  [[nodiscard]] bool any_of(VoterId voter, Condition condition) const {
    for (auto one = of_voter_.lower_bound({voter, NodeId{}});
         one != of_voter_.end() && one->first == voter; ++one) {
      if (condition(nodes_.at(one->second))) {
        return true;
      }
    }
    return false;
  }

  void add(NodeId id, KnownNode node) {
    erase(id);
    of_voter_.emplace(node.voter, id);
    workers_ += runs_workers(node) ? 1 : 0;
    nodes_.emplace(id, std::move(node));
  }
  void erase(NodeId id) {
    if (const auto found = nodes_.find(id); found != nodes_.end()) {
      of_voter_.erase({found->second.voter, id});
      workers_ -= runs_workers(found->second) ? 1 : 0;
      nodes_.erase(found);
    }
  }
  /// It was asked to, and is here.
  void leaves(NodeId id) {
    KnownNode& node = nodes_.at(id);
    workers_ -= runs_workers(node) ? 1 : 0;
    node.leaving = true;
  }
  /// It follows, and has acknowledged the configuration in use.
  void release(NodeId id) {
    if (const auto found = nodes_.find(id); found != nodes_.end()) {
      found->second.granted.clear();
      found->second.beyond = false;
    }
  }
  /// All have acknowledged a configuration, or are about to.
  void release_all() {
    for (auto& [id, node] : nodes_) {
      node.granted.clear();
      node.beyond = false;
    }
  }

 private:
  static bool runs_workers(const KnownNode& node) { return !node.witness && !node.leaving; }

  std::map<NodeId, KnownNode> nodes_;
  std::set<std::pair<VoterId, NodeId>> of_voter_;
  std::size_t workers_ = 0;
};

}  // namespace ddprun::sim
