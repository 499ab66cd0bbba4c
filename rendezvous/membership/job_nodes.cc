#include "rendezvous/membership/job_nodes.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {
namespace {

bool can_run_workers(const JobNode& node) {
  return !node.witness && !node.leaving;
}

}  // namespace

/// Copies a few words of a hello that may be many kilobytes (StateCopy, addresses).
JobNode& JobNodes::admit(const NodeJoined& event, Instant now) {
  const NodeDescription& description = event.description;
  DDP_CHECK(!nodes_.contains(event.node), "a node id is never used twice");
  JobNode& node = nodes_[event.node];
  node.host_name = description.host_name;
  node.address = event.address;
  node.joined_at = now;
  node.role = description.role;
  node.voter = description.voter;
  node.local_world_size = description.local_world_size;
  node.node_rank = description.node_rank;
  node.order_hint = description.order_hint;
  node.hosts_coordinator = description.hosts_coordinator;
  node.witness = description.witness;
  node.said_at = description.said_at;
  if (description.past) {
    // An agent that was in the job under another coordinator keeps its place (rank_order.h).
    node.last_group_rank = description.past->group_rank;
  }
  if (node.hosts_coordinator) {
    host_ = event.node;
    own_addresses_ = description.addresses;
  }
  workers_ += can_run_workers(node) ? 1 : 0;
  if (node.node_rank) {
    const bool is_free = node_ranks_.emplace(*node.node_rank, event.node).second;
    DDP_CHECK(is_free, "a node with a taken rank waits as a contender first");
  }
  DDP_CHECK(workers_ <= nodes_.size(), "a node is counted once");
  return node;
}

std::optional<JobNode> JobNodes::remove(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) {
    return std::nullopt;
  }
  JobNode node = std::move(found->second);
  nodes_.erase(found);
  if (can_run_workers(node)) {
    DDP_CHECK(workers_ > 0, "every node that can run workers was counted");
    --workers_;
  }
  if (node.leaving) {
    DDP_CHECK(leaving_ > 0, "every node that leaves was counted");
    --leaving_;
  }
  if (node.node_rank) {
    const auto given = node_ranks_.find(*node.node_rank);
    DDP_CHECK(given != node_ranks_.end() && given->second == id, "its rank was its own");
    node_ranks_.erase(given);
  }
  DDP_CHECK(node_ranks_.size() <= nodes_.size(), "a node has one rank at most");
  return node;
}

JobNode* JobNodes::find(NodeId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::vector<NodeId> JobNodes::ids() const {
  std::vector<NodeId> all;
  all.reserve(nodes_.size());
  for (const auto& [id, node] : nodes_) {
    all.push_back(id);
  }
  return all;
}

/// A witness may be a former member that runs no workers any more, as the coordinator's node. One
/// that leaves votes in no further configuration.
std::vector<NodeId> JobNodes::voters_besides(const std::vector<NodeId>& members) const {
  std::vector<NodeId> voters;
  for (const auto& [id, node] : nodes_) {
    if (node.witness && !node.leaving) {
      voters.push_back(id);
    }
  }
  // Of two voters neither outlives a coordinator that is the other one; of three, two do.
  for (auto next = nodes_.begin();
       next != nodes_.end() && members.size() + voters.size() < kVotersWanted; ++next) {
    const auto& [id, node] = *next;
    const bool is_spare =
        can_run_workers(node) && std::find(members.begin(), members.end(), id) == members.end();
    if (is_spare && !is_on_coordinators_host(node)) {
      voters.push_back(id);
    }
  }
  DDP_CHECK(voters.size() <= nodes_.size(), "a node votes once");
  return voters;
}

/// With that host the job would lose two voters at once.
bool JobNodes::is_on_coordinators_host(const JobNode& node) const {
  return net::is_loopback(node.address) || std::find(own_addresses_.begin(), own_addresses_.end(),
                                                     node.address) != own_addresses_.end();
}

/// The order of ranks is that of the world as it was handed out, so an unchanged one is recognised
/// (Leadership::plan).
std::vector<NodeId> JobNodes::members() const {
  std::vector<NodeId> members;
  for (const auto& [id, node] : nodes_) {
    if (node.phase != NodePhase::idle) {
      members.push_back(id);
    }
  }
  std::sort(members.begin(), members.end(), [this](NodeId a, NodeId b) {
    return nodes_.at(a).last_group_rank < nodes_.at(b).last_group_rank;
  });
  return members;
}

// The coordinator's node may be asked to leave, or give up, a second time. So both functions bear
// repetition: a second count would make workers_here() smaller than what is here.

void JobNodes::becomes_witness(JobNode& node) {
  if (can_run_workers(node)) {
    DDP_CHECK(workers_ > 0, "every node that can run workers was counted");
    --workers_;
  }
  node.witness = true;
}

void JobNodes::begins_to_leave(JobNode& node) {
  if (can_run_workers(node)) {
    DDP_CHECK(workers_ > 0, "every node that can run workers was counted");
    --workers_;
  }
  leaving_ += node.leaving ? 0 : 1;
  node.leaving = true;
  DDP_CHECK(leaving_ + workers_ <= nodes_.size(), "no node both leaves and runs workers again");
}

/// A node that leaves still votes for the world that it is in. So it is released when no attempt
/// needs it, and its agent ends only then.
std::vector<NodeId> JobNodes::release_idle() {
  std::vector<NodeId> released;
  for (auto& [id, node] : nodes_) {
    if (node.leaving && !node.released && node.phase == NodePhase::idle) {
      node.released = true;
      released.push_back(id);
    }
  }
  DDP_CHECK(released.size() <= leaving_, "every node that leaves was counted");
  return released;
}

/// Then most likely nobody else finds the endpoint.
bool JobNodes::host_is_alone() const {
  return nodes_.size() == 1 && nodes_.begin()->second.hosts_coordinator;
}

const JobNode* JobNodes::host_that_left() const {
  const auto host = host_ ? nodes_.find(*host_) : nodes_.end();
  if (host == nodes_.end() || !host->second.left_by) {
    return nullptr;
  }
  DDP_CHECK(host->second.hosts_coordinator, "that node is the coordinator's");
  DDP_CHECK(!host->second.leaving, "the coordinator's node stays");
  return &host->second;
}

std::optional<NodeId> JobNodes::holder_of(std::optional<int> node_rank) const {
  if (!node_rank) {
    return std::nullopt;
  }
  const auto given = node_ranks_.find(*node_rank);
  return given == node_ranks_.end() ? std::nullopt : std::optional(given->second);
}

/// Nodes without a given rank fill the gaps between the others, and so do those with a rank above:
/// with --nnodes 2 and one node of rank 7 here, a single node is missing, and not ranks 0 and 1.
std::vector<int> JobNodes::missing_ranks(int min_nodes) const {
  std::vector<int> missing;
  const bool all_given =
      !nodes_.empty() && node_ranks_.size() == nodes_.size() &&
      std::all_of(node_ranks_.begin(), node_ranks_.end(),
                  [min_nodes](const auto& taken) { return taken.first < min_nodes; });
  for (int rank = 0; all_given && rank < min_nodes && missing.size() < kMissingRanksMax; ++rank) {
    if (!node_ranks_.contains(rank)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

std::vector<RankedNode> JobNodes::ranked(int max_nodes) const {
  DDP_CHECK(workers_ > 0, "a world has a node that runs workers");
  std::vector<RankCandidate> candidates;
  candidates.reserve(workers_);
  for (const auto& [id, node] : nodes_) {
    if (can_run_workers(node)) {
      candidates.push_back({id, node.hosts_coordinator, node.node_rank, node.order_hint,
                            node.last_group_rank, node.host_name, node.role,
                            node.local_world_size});
    }
  }
  DDP_CHECK(candidates.size() == workers_, "the count agrees with the nodes");
  return assign_ranks(std::move(candidates), max_nodes);
}

}  // namespace ddprun
