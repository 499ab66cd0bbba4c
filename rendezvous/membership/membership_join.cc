// The part of Membership that deals with nodes that come: who is let in, who waits for the rank of
// another, and what it means for the attempt.
#include <utility>

#include "rendezvous/membership/membership.h"

namespace ddprun {

void Membership::on(NodeJoined event) {
  DDP_CHECK(!nodes_.contains(event.node) && !contenders_.contains(event.node),
            "a node id is never used twice");
  if (auto refused = refusal(event.description)) {
    reject(event.node, event.description, event.address, std::move(*refused));
    return;
  }
  const NodeId id = event.node;
  const bool upset = leadership_.planning();
  const std::size_t welcome = commands_.size();
  commands_.push_back(Welcome{id, leadership_.in_use().term, options_.self, {}});
  if (!lets_in(event)) {
    return;
  }
  if (event.description.node_rank && node_ranks_.contains(*event.description.node_rank)) {
    contend(std::move(event));
    return;
  }
  const Node& node = admit(std::move(event));
  auto& welcomed = std::get<Welcome>(commands_[welcome]);
  welcomed.term = leadership_.in_use().term;
  welcomed.instance = leadership_.in_use().instance;
  switch (state_) {
    case JobState::gathering:
      gathering_.changed(now_);
      if (upset) {
        put_off_plan();
      }
      try_start();
      break;
    case JobState::running:
      joined_while_running(id, node);
      catch_up(id);
      break;
    case JobState::stopping:  // it is taken in with the next attempt
      catch_up(id);
      break;
    case JobState::ending:
      if (upset) {
        put_off_plan();
      }
      try_end();
      break;
    case JobState::over:
      DDP_CHECK(false, "a job that is over lets nobody in");
  }
}

void Membership::on(const StrangerTurnedAway& event) {
  if (state_ != JobState::over) {
    waiting_room_.refused({}, event.address, event.why, now_);
    gathering_.changed(now_);
  }
}

void Membership::on(const NodeHeard& event) {
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end()) {
    return;
  }
  const Node& node = found->second;
  if (const auto contender = contender_for(node.node_rank)) {
    const NodeJoined loser = std::move(contenders_.extract(*contender).mapped());
    reject(loser.node, loser.description, loser.address,
           {"node rank " + std::to_string(*node.node_rank) + " is taken by node " + node.host_name +
                ", which is alive",
            "give each node a --node-rank of its own"});
  }
}

std::optional<Refusal> Membership::refusal(const NodeDescription& node) const {
  if (auto refused = disagreement(terms_, node)) {
    return refused;
  }
  if (state_ == JobState::over) {
    return Refusal{"the job '" + options_.job_id +
                       "' is over: " + (ending_->reason.empty() ? "it succeeded" : ending_->reason),
                   "start all its nodes again to run it again"};
  }
  if (!node.node_rank || !node_ranks_.contains(*node.node_rank)) {
    return std::nullopt;
  }
  const Node& holder = nodes_.at(node_ranks_.at(*node.node_rank));
  const std::string taken =
      "node rank " + std::to_string(*node.node_rank) + " is taken by node " + holder.host_name;
  const std::string todo = "give each node a --node-rank of its own";
  if (holder.hosts_coordinator) {
    return Refusal{taken + ", which hosts the endpoint", todo};
  }
  if (const auto contender = contender_for(node.node_rank)) {
    return Refusal{
        taken + ", and node " + contenders_.at(*contender).description.host_name + " waits for it",
        todo};
  }
  return std::nullopt;
}

void Membership::reject(NodeId id, const NodeDescription& node, const std::string& address,
                        Refusal refused) {
  if (state_ != JobState::over) {
    waiting_room_.refused(node.host_name, address, refused.why, now_);
    gathering_.changed(now_);
  }
  Refused kept{refused, Verdict::impossible};
  commands_.push_back(Reject{id, std::move(refused.why), std::move(refused.todo)});
  if (kept.refusal.final) {
    will_not_come({node.host_name, address}, std::move(kept));
  }
}

Membership::Node& Membership::admit(NodeJoined event) {
  environment_check_.joined(event.node, event.description);
  Node& node = nodes_[event.node];
  node.host_name = std::move(event.description.host_name);
  node.address = std::move(event.address);
  node.joined_at = now_;
  node.role = std::move(event.description.role);
  node.voter = event.description.voter;
  node.local_world_size = event.description.local_world_size;
  node.node_rank = event.description.node_rank;
  node.order_hint = event.description.order_hint;
  node.hosts_coordinator = event.description.hosts_coordinator;
  node.witness = event.description.witness;
  node.said_at = event.description.said_at;
  if (event.description.past) {
    node.last_group_rank = event.description.past->group_rank;
  }
  witnesses_ += node.witness ? 1 : 0;
  leadership_.joined(event.node, event.description.voter, event.description.promise,
                     event.description.past, event.description.copy);
  fence_.came(node.voter);
  if (const auto& past = event.description.past) {
    fence_.told(*past, now_ - ago(event.description, past->contact_at));
  }
  remember(event.description);
  if (node.node_rank) {
    node_ranks_[*node.node_rank] = event.node;
  }
  waiting_room_.came(node.host_name, node.address);
  refused_.erase({node.host_name, node.address});
  return node;
}

// --- Contenders for a rank ------------------------------------------------------------------

void Membership::contend(NodeJoined event) {
  const int rank = *event.description.node_rank;
  const NodeId holder = node_ranks_.at(rank);
  const NodeId id = event.node;
  const Node& taken_by = nodes_.at(holder);
  const bool same = number(taken_by.voter) != 0 && taken_by.voter == event.description.voter;
  if (same && event.description.said_at < taken_by.said_at) {
    // A connection that its agent gave up. A cut held its hello back until now.
    commands_.push_back(Disconnect{id});
    return;
  }
  contenders_.emplace(id, std::move(event));
  if (same) {
    commands_.push_back(Disconnect{holder});
    return;
  }
  commands_.push_back(WatchNode{holder});
  tell_turn(id, "node rank " + std::to_string(rank) + " is taken by node " + taken_by.host_name +
                    "; this node takes its place if that one turns out to be lost");
}

std::optional<NodeId> Membership::contender_for(std::optional<int> node_rank) const {
  for (const auto& [id, contender] : contenders_) {
    if (node_rank && contender.description.node_rank == node_rank) {
      return id;
    }
  }
  return std::nullopt;
}

/// Lets in who waited for the rank of a node that is lost.
std::optional<NodeId> Membership::next_waiter(const Node& lost) {
  const auto waiter = contender_for(lost.node_rank);
  if (!waiter) {
    return std::nullopt;
  }
  NodeJoined event = std::move(contenders_.extract(*waiter).mapped());
  if (!lets_in(event)) {
    return std::nullopt;
  }
  admit(std::move(event));
  return waiter;
}

/// A voter that was away may have missed what the others were told since, and could be elected.
/// While an attempt runs it is none of its nodes, so others vote from here on.
void Membership::catch_up(NodeId id) {
  if (!leadership_.votes(id) || leadership_.planning()) {
    return;
  }
  if (state_ == JobState::running) {
    plan();
  } else if (leadership_.is_free(id)) {
    commands_.push_back(Replicate{leadership_.voters(), leadership_.in_use(), story()});
  }
}

/// Growth spends nothing. Once a node has finished its workers, the others are about to: a restart
/// would do the work again, so the newcomer waits as a spare.
void Membership::joined_while_running(NodeId id, const Node& node) {
  if (node.witness) {
    if (leadership_.enabled()) {
      plan();  // it votes from here on; the attempt goes on
    }
    return;
  }
  const bool grows = options_.scale_up != ScaleUp::never;
  if (world_nodes_ < options_.max_nodes && finished_ == 0 && grows) {
    incident().node_joined(node.host_name, now_);
    begin_stop(incident().reason(),
               options_.scale_up == ScaleUp::now ? StopHow::now : StopHow::save);
    return;
  }
  const std::string why = finished_ > 0 ? "its first nodes have finished"
                          : world_nodes_ < options_.max_nodes
                              ? "--scale-up never keeps it as it is"
                              : "all " + std::to_string(world_nodes_) + " nodes are here";
  tell_turn(id, "this node is a spare: the job runs and " + why +
                    "; it takes the place of a node that is lost");
}

}  // namespace ddprun
