#include "rendezvous/membership/membership.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/rank_order.h"

namespace ddprun {
namespace {

GatheringRules gathering_rules(const MembershipOptions& options) {
  DDP_CHECK(options.min_nodes >= 1, "a job has at least one node");
  return {static_cast<std::size_t>(options.min_nodes), static_cast<std::size_t>(options.max_nodes),
          options.join_timeout, options.last_call_timeout};
}

/// How often standbys are told of progress within an attempt.
constexpr std::chrono::seconds kStoryPace{5};

RestartRules restart_rules(const MembershipOptions& options) {
  RestartRules rules = options.restarts;
  rules.max_restarts = options.max_restarts;
  return rules;
}

}  // namespace

Membership::Membership(MembershipOptions options, Instant now)
    : options_(std::move(options)),
      terms_{options_.job_id,       options_.min_nodes,        options_.max_nodes,
             options_.max_restarts, options_.require_same_env, options_.at_endpoint},
      gathering_(gathering_rules(options_)),
      policy_(restart_rules(options_)),
      leadership_(options_.term, options_.self,
                  options_.inheritance ? options_.inheritance->known : ReplicatedState{},
                  options_.inheritance ? options_.inheritance->first_attempt : AttemptNumber{}),
      fence_(now, options_.heartbeat_timeout),
      environment_check_(options_.require_same_env, options_.inheritance.has_value()),
      now_(now) {
  if (options_.inheritance) {
    take_over();
  } else {
    record_.begin(now);
    gathering_.begin(now, true);
  }
}

std::vector<Command> Membership::apply(Instant now, Event event) {
  DDP_CHECK(now >= now_, "time does not go back");
  DDP_CHECK(commands_.empty(), "commands are handed out once");
  now_ = now;
  std::visit([this](auto& alternative) { on(std::move(alternative)); }, event);
  agree();
  check_invariants();
  return std::exchange(commands_, {});
}

std::optional<Instant> Membership::next_deadline() const {
  if (!waits()) {
    return std::nullopt;
  }
  if (state_ == JobState::gathering && !held_back_) {
    return gathering_.next_deadline();
  }
  Instant due = gathering_.next_report();
  if (now_ < not_before_) {
    due = std::min(due, not_before_);
  }
  if (!leadership_.quorum_follows()) {
    due = std::min(due, gathering_.join_deadline());
  }
  if (waits_for_old_world()) {
    due = std::min(due, fence_.over_at());
  }
  return waits_for_followers() ? std::min(due, expects_until_) : due;
}

// --- Events ---------------------------------------------------------------------------------

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
  commands_.push_back(Welcome{id, {}, options_.self});
  if (!lets_in(event)) {
    return;
  }
  if (event.description.node_rank && node_ranks_.contains(*event.description.node_rank)) {
    contend(std::move(event));
    return;
  }
  const Node& node = admit(std::move(event));
  std::get<Welcome>(commands_[welcome]).term = leadership_.term();
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
      break;
    case JobState::stopping:  // it is taken in with the next attempt
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

void Membership::on(const NodeLost& event) {
  contenders_.erase(event.node);
  kept_out_.erase(event.node);
  environment_check_.left(event.node);
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end()) {
    return;
  }
  const Node node = std::move(found->second);
  nodes_.erase(found);
  if (leadership_.planning()) {
    put_off_plan();
  }
  leadership_.left(event.node, event.died);
  witnesses_ -= node.witness ? 1 : 0;
  leaving_ -= node.leaving ? 1 : 0;
  if (node.node_rank) {
    node_ranks_.erase(*node.node_rank);
  }
  last_lost_ = node.host_name;
  waiting_room_.lost(node.host_name, node.address, event.why, now_ - event.silent_for);
  gathering_.changed(now_);
  // Before the loss is dealt with, so that the next world has both ends of the change.
  const std::optional<NodeId> waiter = next_waiter(node);
  const bool ran_on = node.phase == Phase::idle || node.phase == Phase::finished;
  lost_from(node, event.why, now_ - event.silent_for);
  if (waiter && ran_on && state_ == JobState::running) {
    joined_while_running(*waiter, nodes_.at(*waiter));
  }
}

/// What the loss of a node means in the phase that it was in.
void Membership::lost_from(const Node& node, const std::string& why, Instant lost_at) {
  switch (node.phase) {
    case Phase::idle:
      if (state_ == JobState::gathering) {
        try_start();  // takes back a last call
      } else if (state_ == JobState::ending) {
        try_end();
      }
      break;
    case Phase::working:
      DDP_CHECK(state_ == JobState::running, "only a running attempt has working nodes");
      --working_;
      unstarted_ -= node.started ? 0 : 1;
      incident().node_lost(node.host_name, why, lost_at);
      begin_stop(incident().reason());
      break;
    case Phase::finished:  // it owed nothing any more
      unstarted_ -= node.started ? 0 : 1;
      break;
    case Phase::stopping:
      --stopping_;
      [[fallthrough]];
    case Phase::stopped:
      DDP_CHECK(state_ == JobState::stopping, "only a stopping attempt has stopped nodes");
      if (incident_) {
        incident_->node_lost(node.host_name, why, lost_at);
      }
      all_in_order_ = all_complete_ = false;
      if (stopping_ == 0) {
        all_stopped();
      } else {
        hurry("not all can save any more");
      }
      break;
  }
}

void Membership::on(WorkersStarted event) {
  Node* node = member(event.node, event.attempt);
  if (node == nullptr || node->started || state_ != JobState::running) {
    return;
  }
  node->started = true;
  if (--unstarted_ == 0) {
    record_.all_started(now_);
  }
}

void Membership::on(WorkerFailed event) {
  Node* node = member(event.node, event.attempt);
  if (node == nullptr || node->phase == Phase::finished || node->phase == Phase::stopped) {
    return;
  }
  if (state_ == JobState::running || how_ != StopHow::now) {
    incident();
  } else if (!incident_) {
    return;  // the job is being ended on request: what fails now is no incident
  }
  add_record(*node, std::move(event.record));
  hurry("not all can save any more");
  if (state_ == JobState::running) {
    begin_stop(incident_->reason());
  }
}

void Membership::on(WorkersFinished event) {
  Node* node = member(event.node, event.attempt);
  if (node == nullptr) {
    return;
  }
  if (node->phase == Phase::working || node->phase == Phase::stopping) {
    hear_progress(*node, event.progress);
  }
  if (node->phase != Phase::working) {
    return;  // while stopping, WorkersStopped is what counts
  }
  node->phase = Phase::finished;
  ++finished_;
  left_unasked_ = left_unasked_ || event.progress.left;
  if (--working_ == 0) {
    finish(left_unasked_
               ? Ending{Verdict::preempted, "its workers were signalled to save and end", 0}
               : Ending{Verdict::succeeded, {}, 0});
  }
}

void Membership::on(const WorkersProgress& event) {
  Node* node = member(event.node, event.attempt);
  if (node == nullptr || node->phase == Phase::finished || node->phase == Phase::stopped) {
    return;
  }
  hear_progress(*node, event.progress);
  // Without it a successor would take all of this attempt's work for lost.
  if (state_ == JobState::running && now_ - story_told_at_ >= kStoryPace) {
    tell_story();
  }
}

void Membership::on(WorkersStopped event) {
  Node* node = member(event.node, event.attempt);
  if (node == nullptr || node->phase == Phase::finished || node->phase == Phase::stopped) {
    return;
  }
  const bool unasked = state_ == JobState::running;
  if (unasked) {
    incident();
  }
  hear_progress(*node, event.progress);
  if (incident_) {
    for (FailureRecord& record : event.records) {
      add_record(*node, std::move(record));
    }
    incident_->count_dropped(std::max(event.records_dropped, 0));
  }
  if (unasked) {
    --working_;
    unstarted_ -= node->started ? 0 : 1;
    node->phase = Phase::stopped;
    begin_stop(incident_->reason());
  } else {
    account(event.progress);
    one_stopped(*node);
  }
}

void Membership::on(const NodeGaveUp& event) {
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end() || ending_) {
    return;
  }
  // A node that no attempt needs does not end the job (complaint I-27); it will leave by itself.
  Node& node = found->second;
  if (node.leaving || node.phase == Phase::finished ||
      (node.phase == Phase::idle && state_ != JobState::gathering)) {
    return;
  }
  const auto others = static_cast<int>(workers_here()) - (node.witness ? 0 : 1);
  // Later on another node may come in its place, as for any that is lost.
  const bool replaceable = attempt_ && number(*attempt_) > 0 && !node.hosts_coordinator;
  if (others >= options_.min_nodes || replaceable) {
    go_on_without(event.node, node, event.why);
  } else {
    end_job({Verdict::impossible, "node " + node.host_name + ": " + event.why, 0});
  }
}

void Membership::on(const StoreFailed& event) {
  if (state_ != JobState::running || attempt_ != event.attempt) {
    return;
  }
  finish({Verdict::impossible, event.why, 0});
}

void Membership::on(const StandbyKnows& event) {
  next_step(leadership_.standby_knows(event.node, event.configuration));
}

void Membership::on(const ConfigurationPrepared& event) {
  next_step(leadership_.prepared(event.node, event.configuration));
}

void Membership::on(TimePassed) {
  if (state_ == JobState::gathering) {
    try_start();
  } else if (state_ == JobState::ending) {
    try_end();
  }
  if (waits() && gathering_.report_due(now_)) {
    tell_waiting();
  }
}

// --- Rules ----------------------------------------------------------------------------------

/// The member that speaks of the current attempt; null for everybody else.
Membership::Node* Membership::member(NodeId id, AttemptNumber attempt) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || found->second.phase == Phase::idle || attempt_ != attempt) {
    return nullptr;
  }
  DDP_CHECK(state_ == JobState::running || state_ == JobState::stopping,
            "only an attempt that lives has members");
  return &found->second;
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
                     event.description.past);
  if (const auto& past = event.description.past) {
    fence_.told(*past, now_ - event.description.ago(past->contact_at));
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

void Membership::add_record(const Node& node, FailureRecord record) {
  DDP_CHECK(incident_.has_value(), "records belong to an incident");
  // What a node says of others than itself is not believed.
  record.node = node.host_name;
  record.group_rank = node.last_group_rank.value_or(0);
  if (record.rank >= node.base_rank && record.rank < node.base_rank + node.local_world_size) {
    incident_->add(std::move(record), now_);
  }
}

IncidentBuilder& Membership::incident() {
  if (!incident_) {
    DDP_CHECK(state_ == JobState::running || state_ == JobState::stopping,
              "an incident begins in an attempt that lives");
    incident_.emplace(*attempt_, now_, world_size_);
  }
  return *incident_;
}

void Membership::begin_stop(const std::string& reason, StopHow how, int signal) {
  DDP_CHECK(state_ == JobState::running, "only a running attempt can be stopped");
  DDP_CHECK(stopping_ == 0, "nobody is being stopped yet");
  state_ = JobState::stopping;
  how_ = how == StopHow::hang ? StopHow::now : how;
  all_complete_ = all_in_order_ = true;
  any_told_ = false;
  if (!incident_) {
    record_.stopping(now_);
  }
  for (auto& [id, node] : nodes_) {
    if (node.phase == Phase::working || node.phase == Phase::finished) {
      node.phase = Phase::stopping;
      ++stopping_;
      commands_.push_back(StopWorkers{id, *attempt_, reason, how, signal});
    }
  }
  working_ = 0;
  if (stopping_ == 0) {
    all_stopped();
  }
}

void Membership::one_stopped(Node& node) {
  DDP_CHECK(node.phase == Phase::stopping && stopping_ > 0, "it was told to stop");
  node.phase = Phase::stopped;
  if (--stopping_ == 0) {
    all_stopped();  // at once: no timer lies on this path
  }
}

void Membership::all_stopped() {
  DDP_CHECK(state_ == JobState::stopping && stopping_ == 0, "every member has stopped or is lost");
  for (auto& [id, node] : nodes_) {
    DDP_CHECK(node.phase == Phase::idle || node.phase == Phase::stopped, "no worker is left");
    node.phase = Phase::idle;
  }
  conclude_order();
  if (incident_) {
    close_incident();
  }
  if (ending_) {
    finish(*ending_);
  } else {
    gather();
  }
}

void Membership::hear_progress(Node& node, TrainingProgress told) {
  story_.told = story_.told || told.told;
  story_.stepped = story_.stepped || told.first_step_after.has_value();
  story_.steps = std::max(story_.steps, told.steps);
  story_.saved = std::max(story_.saved, told.saved);
  if (told.first_step_after && std::exchange(node.stepped, true)) {
    told.first_step_after.reset();  // told before
  }
  record_.progress(told, node.last_group_rank == 0, now_);
}

}  // namespace ddprun
