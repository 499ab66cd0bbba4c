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

ReplicatedState known_state(const MembershipOptions& options) {
  if (options.inheritance) {
    return options.inheritance->known;
  }
  ReplicatedState nothing;
  nothing.instance = options.instance;
  return nothing;
}

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
      leadership_(options_.term, options_.self, known_state(options_),
                  options_.inheritance ? options_.inheritance->first_attempt : AttemptNumber{},
                  options_.voters_max),
      fence_(now, options_.heartbeat_timeout,
             options_.inheritance
                 ? std::optional<Instant>(now + options_.inheritance->leases_end_in)
                 : std::nullopt),
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
  const bool ran_workers = node.phase == Phase::working || node.phase == Phase::stopping;
  if (ran_workers && leadership_.here().connections_of(node.voter).empty()) {
    fence_.lost(node.voter, now_ + event.lease_left);
  }
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

void Membership::on(const StateAcknowledged& event) {
  if (leadership_.acknowledged(event.node, event.configuration)) {
    committed();
  }
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
