// The part of Membership that deals with nodes that come and go: who is let in, and who waits for
// the rank of another.
#include <fmt/core.h>

#include <utility>
#include <variant>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {

/// The welcome is the first command for any node that may stay, so it is in its place before
/// anything else can be ordered; what is not known yet is filled in afterwards.
void Membership::on(NodeJoined event) {
  DDP_CHECK(nodes_.find(event.node) == nullptr && !contenders_.contains(event.node),
            "a node id is never used twice");
  if (auto refused = refusal(event.description)) {
    reject(event.node, event.description, event.address, std::move(*refused));
    return;
  }
  const NodeId id = event.node;
  const Leadership& leadership = course_.leadership();
  const bool upset = leadership.planning();
  const std::size_t welcome = commands_.size();
  commands_.push_back(Welcome{id, leadership.in_use().term, options_.self, {}});
  if (!lets_in(event)) {
    return;
  }
  if (nodes_.holder_of(event.description.node_rank)) {
    contend(std::move(event));
    return;
  }
  admit(event);
  // A coordinator that began without any state may have learned from this very node which job it
  // is, and in which term.
  auto& welcomed = std::get<Welcome>(commands_[welcome]);
  welcomed.term = leadership.in_use().term;
  welcomed.instance = leadership.in_use().instance;
  course_.take_in(id, upset);
}

void Membership::on(const StrangerTurnedAway& event) {
  if (course_.state() != JobState::over) {
    absent_.refused({{}, event.address}, event.why, now_);
    course_.absence_changed();
  }
}

/// The holder of a rank is alive: whoever waits for that rank need not wait any more.
void Membership::on(const NodeHeard& event) {
  const JobNode* node = nodes_.find(event.node);
  if (node == nullptr) {
    return;
  }
  if (const NodeJoined* contender = contenders_.waits_for(node->node_rank)) {
    const std::optional<NodeJoined> loser = contenders_.take(contender->node);
    DDP_CHECK(loser.has_value(), "who waits can be taken");
    reject(loser->node, loser->description, loser->address,
           {fmt::format("node rank {} is taken by node {}, which is alive", *node->node_rank,
                        node->host_name),
            "give each node a --node-rank of its own"});
  }
}

void Membership::on(const NodeLost& event) {
  contenders_.take(event.node);
  absent_.take_kept_out(event.node);
  environment_check_.left(event.node);
  const std::optional<JobNode> node = nodes_.remove(event.node);
  if (!node) {
    return;
  }
  if (!node->released) {  // else it left in order
    absent_.lost({node->host_name, node->address}, event.why, now_ - event.silent_for);
  }
  course_.left(event);
  // Before the loss is dealt with, so that the next world has both ends of the change.
  const std::optional<NodeId> waiter = next_waiter(*node);
  DDP_CHECK(contenders_.size() <= nodes_.ranks_given(), "each waits for a rank that is taken");
  course_.lost(*node, event, waiter);
}

void Membership::on(EnvironmentTold event) {
  environment_check_.on_facts(event.node, std::move(event.environment));
}

// --- Who is let in --------------------------------------------------------------------------

std::optional<Refusal> Membership::refusal(const NodeDescription& node) const {
  if (auto refused = disagreement(terms_, node)) {
    return refused;
  }
  if (course_.state() == JobState::over) {
    const std::string& reason = course_.ending()->reason;
    return Refusal{
        "the job '" + options_.job_id + "' is over: " + (reason.empty() ? "it succeeded" : reason),
        "start all its nodes again to run it again"};
  }
  const std::optional<NodeId> holder_id = nodes_.holder_of(node.node_rank);
  if (!holder_id) {
    return std::nullopt;
  }
  const JobNode& holder = nodes_.at(*holder_id);
  const std::string taken =
      fmt::format("node rank {} is taken by node {}", *node.node_rank, holder.host_name);
  const std::string todo = "give each node a --node-rank of its own";
  if (holder.hosts_coordinator) {
    return Refusal{taken + ", which hosts the endpoint", todo};
  }
  if (const NodeJoined* contender = contenders_.waits_for(node.node_rank)) {
    return Refusal{taken + ", and node " + contender->description.host_name + " waits for it",
                   todo};
  }
  return std::nullopt;
}

/// A node of this very job that would be refused again is not waited for any more (`final`). Of
/// others, such as strays, only people need to know.
void Membership::reject(NodeId id, const NodeDescription& node, const std::string& address,
                        Refusal refused) {
  if (course_.state() != JobState::over) {
    absent_.refused({node.host_name, address}, refused.why, now_);
    course_.absence_changed();
  }
  RefusedNode kept{refused, Verdict::impossible};
  commands_.push_back(Reject{id, std::move(refused.why), std::move(refused.todo)});
  if (kept.refusal.final) {
    course_.will_not_come({node.host_name, address}, std::move(kept));
  }
}

/// False: its environment differs, and it is asked in what before it is refused.
bool Membership::lets_in(const NodeJoined& event) {
  if (environment_check_.admits(event.node, event.description)) {
    return true;
  }
  absent_.keep_out(event.node, {event.description.host_name, event.address});
  return false;
}

/// Each part takes what it needs of the hello, which is large and is not kept.
void Membership::admit(const NodeJoined& event) {
  environment_check_.joined(event.node, event.description);
  const JobNode& node = nodes_.admit(event, now_);
  course_.joined(event.node, event.description);
  absent_.came({node.host_name, node.address});
}

/// Carries out what the comparison asks for (environment_check.h). A job whose end is decided
/// compares nothing any more.
void Membership::carry_out_environment_check() {
  if (course_.state() == JobState::ending || course_.state() == JobState::over) {
    return;
  }
  EnvironmentCheck::Step step = environment_check_.take_actions();
  for (const NodeId id : step.ask) {
    commands_.push_back(AskEnvironment{id});
  }
  if (!step.table.empty()) {
    commands_.push_back(TellEnvironments{std::move(step.table)});
  }
  for (auto& [id, refused] : step.refused) {
    commands_.push_back(Reject{id, refused.why, refused.todo});
    if (auto who = absent_.take_kept_out(id)) {
      course_.will_not_come(std::move(*who), {std::move(refused), Verdict::disagreed});
    }
  }
  if (step.ending) {
    course_.end_job({Verdict::disagreed, std::move(*step.ending), 0});
  }
}

// --- Contenders for a rank ------------------------------------------------------------------

/// An agent that lost its connection joins again, perhaps before the loss of the old one is noticed
/// here. Then it competes with itself, and the hello that it sent later is the valid one.
void Membership::contend(NodeJoined event) {
  const int rank = *event.description.node_rank;
  DDP_CHECK(nodes_.holder_of(rank).has_value(), "there is somebody to compete with");
  const NodeId holder = *nodes_.holder_of(rank);
  const NodeId id = event.node;
  const JobNode& taken_by = nodes_.at(holder);
  const bool same = number(taken_by.voter) != 0 && taken_by.voter == event.description.voter;
  if (same && event.description.said_at < taken_by.said_at) {
    // A connection that its agent gave up. A cut held its hello back until now.
    commands_.push_back(Disconnect{id});
    return;
  }
  contenders_.add(std::move(event));
  DDP_CHECK(contenders_.size() <= nodes_.ranks_given(), "one node at most waits for a rank");
  if (same) {
    commands_.push_back(Disconnect{holder});
    return;
  }
  commands_.push_back(WatchNode{holder});
  tell_turn(id, fmt::format("node rank {} is taken by node {}; this node takes its place if that "
                            "one turns out to be lost",
                            rank, taken_by.host_name));
}

/// Lets in who waited for the rank of a node that is lost.
std::optional<NodeId> Membership::next_waiter(const JobNode& lost) {
  const NodeJoined* contender = contenders_.waits_for(lost.node_rank);
  if (contender == nullptr) {
    return std::nullopt;
  }
  const std::optional<NodeJoined> event = contenders_.take(contender->node);
  DDP_CHECK(event && !nodes_.holder_of(lost.node_rank), "the rank is free, and one waits for it");
  if (!lets_in(*event)) {
    return std::nullopt;
  }
  admit(*event);
  return event->node;
}

void Membership::tell_turn(NodeId id, std::string note) {
  commands_.push_back(turn_notice(id, options_, nodes_.workers_here(), std::move(note)));
}

}  // namespace ddprun
