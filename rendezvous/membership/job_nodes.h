// JobNodes: the nodes that are part of the job and connected now. Pure; it decides nothing.
//
// It owns three invariants: iteration follows the order of arrival, so equal events lead to equal
// commands; a given --node-rank belongs to one node; the counts agree with the nodes. It does not
// know nodes that wait for a rank (rank_contenders.h), nor the refused and the lost
// (absent_nodes.h). What a phase means, and when it changes, is Attempt's business (attempt.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/rank_order.h"

namespace ddprun {

enum class NodePhase : std::uint8_t {
  idle,      ///< no member of the attempt: gathering, a spare, or a late joiner
  working,   ///< a member, told to start its workers
  finished,  ///< a member whose workers all exited 0
  stopping,  ///< a member, told to stop its workers
  stopped,   ///< a member without any worker left
};

/// What is kept of a node; small, for there may be ten thousand.
struct JobNode {
  std::string host_name;
  std::string address;
  Instant joined_at{};
  std::string role;
  VoterId voter{};    ///< the life of its agent; 0: the job has no failover
  Instant said_at{};  ///< its hello, on its own clock
  int local_world_size = 1;
  std::optional<int> node_rank;
  std::optional<int> order_hint;
  bool hosts_coordinator = false;
  bool asked = false;          ///< its agent was asked to stop, and said so
  bool witness = false;        ///< runs no workers; set by JobNodes
  bool leaving = false;        ///< asked to leave in order: in no other world; set by JobNodes
  std::optional<int> left_by;  ///< of the coordinator's node: the signal that asked it to leave
  bool released = false;       ///< and told that it may
  NodePhase phase = NodePhase::idle;
  bool started = false;            ///< has spawned its workers of this attempt
  bool stepped = false;            ///< has told its first step in this attempt
  bool knows_it_is_spare = false;  ///< it was told, and in no world since
  std::optional<int> last_group_rank;
  int base_rank = 0;  ///< of the current attempt
};

/// A job of fewer members lets spares vote.
inline constexpr std::size_t kVotersWanted = 3;

class JobNodes {
 public:
  using ById = std::map<NodeId, JobNode>;

  /// Of a node id that was never used before, whose --node-rank, if any, is free. The reference
  /// is valid until the node is removed.
  JobNode& admit(const NodeJoined& event, Instant now);
  /// Its connection is gone. Its rank is free from here on. None: it was not part of the job.
  std::optional<JobNode> remove(NodeId id);

  /// Null for a node that is not here.
  [[nodiscard]] JobNode* find(NodeId id);
  [[nodiscard]] const JobNode& at(NodeId id) const { return nodes_.at(id); }
  [[nodiscard]] JobNode& at(NodeId id) { return nodes_.at(id); }
  /// In the order of their arrival.
  [[nodiscard]] const ById& all() const { return nodes_; }
  [[nodiscard]] ById& all() { return nodes_; }
  [[nodiscard]] std::vector<NodeId> ids() const;
  /// Who is here and may vote besides these members of a world: all witnesses, and of the spares so
  /// many that three nodes vote.
  [[nodiscard]] std::vector<NodeId> voters_besides(const std::vector<NodeId>& members) const;
  /// Of the attempt that lives, in the order of their ranks.
  [[nodiscard]] std::vector<NodeId> members() const;

  /// It goes on, but runs no workers any more. Nothing happens on repeat.
  void becomes_witness(JobNode& node);
  /// It is in no world to come. Nothing happens on repeat.
  void begins_to_leave(JobNode& node);
  /// Marks as released, and returns, those that leave and are needed by no attempt.
  [[nodiscard]] std::vector<NodeId> release_idle();

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Those that can run workers in the next world.
  [[nodiscard]] std::size_t workers_here() const { return workers_; }
  [[nodiscard]] bool any_leaves() const { return leaving_ > 0; }
  /// The coordinator's own node is the only one.
  [[nodiscard]] bool host_is_alone() const;
  /// The coordinator's node, if it was asked to leave and stays for the others.
  [[nodiscard]] const JobNode* host_that_left() const;

  /// The node with this --node-rank.
  [[nodiscard]] std::optional<NodeId> holder_of(std::optional<int> node_rank) const;
  [[nodiscard]] std::size_t ranks_given() const { return node_ranks_.size(); }
  /// Ranks below `min_nodes` that no node has, at most kMissingRanksMax. Empty where nodes without
  /// a given rank, or with one from `min_nodes` on, may stand in for some of them.
  [[nodiscard]] std::vector<int> missing_ranks(int min_nodes) const;
  /// The next world, as those that are here make it; at least one can run workers.
  [[nodiscard]] std::vector<RankedNode> ranked(int max_nodes) const;

 private:
  [[nodiscard]] bool is_on_coordinators_host(const JobNode& node) const;

  ById nodes_;
  std::optional<NodeId> host_;                  ///< the newest node of the coordinator
  std::vector<std::string> own_addresses_;      ///< of the coordinator's host
  std::unordered_map<int, NodeId> node_ranks_;  ///< given ranks that are taken
  std::size_t workers_ = 0;                     ///< neither witnesses nor leaving
  std::size_t leaving_ = 0;
};

}  // namespace ddprun
