#include "rendezvous/membership/attempt.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// The others would wait for the missing peer in a collective until they are killed.
constexpr const char* kNotAllCanSave = "not all can save any more";

/// What a node says of other ranks than its own is ignored, or a node with a fault of its own could
/// lay it on others.
bool is_own_rank(const JobNode& node, int rank) {
  return rank >= node.base_rank && rank < node.base_rank + node.local_world_size;
}

}  // namespace

JobAttempt::JobAttempt(JobNodes& nodes, JobHistory& history, std::vector<Command>& commands)
    : nodes_(nodes), history_(history), commands_(commands) {}

/// Ranks of the last attempt are forgotten here and not at its end: until now they decided about
/// the order of the next world (rank_order.h).
void JobAttempt::begin(AttemptNumber number, const std::vector<RankedNode>& world) {
  DDP_CHECK(!lives(), "the next attempt begins when no worker of the one before is left");
  DDP_CHECK(!number_ || number_ < number, "attempt numbers rise");
  DDP_CHECK(!world.empty(), "a world has nodes");
  for (auto& [id, node] : nodes_.all()) {
    DDP_CHECK(node.phase == NodePhase::idle, "no node is in an attempt yet");
    node.last_group_rank.reset();
  }
  for (const RankedNode& one : world) {
    JobNode& node = nodes_.at(one.node);
    node.phase = NodePhase::working;
    node.started = node.stepped = false;
    node.last_group_rank = one.world.group_rank;
    node.base_rank = one.world.base_rank;
  }
  state_ = State::running;
  number_ = number;
  world_nodes_ = working_ = unstarted_ = static_cast<int>(world.size());
  world_size_ = world.front().world.world_size;
  finished_ = 0;
  left_unasked_ = false;
  story_ = {};
}

/// Also of an attempt that runs: all of its workers have finished, or its store could not be opened
/// and none was started.
void JobAttempt::end() {
  for (auto& [id, node] : nodes_.all()) {
    DDP_CHECK(!is_stopping() || node.phase == NodePhase::idle || node.phase == NodePhase::stopped,
              "no worker is left");
    node.phase = NodePhase::idle;
  }
  state_ = State::none;
  working_ = stopping_ = unstarted_ = 0;
}

// --- Events ---------------------------------------------------------------------------------

bool JobAttempt::on(const WorkersStarted& event, Instant now) {
  JobNode* node = member(event.node, event.attempt);
  if (node == nullptr || node->started || !runs()) {
    return false;
  }
  DDP_CHECK(unstarted_ > 0, "a member that has not started was counted");
  node->started = true;
  if (--unstarted_ > 0) {
    return false;
  }
  history_.all_started(now);
  return true;
}

/// The first failure of a running attempt stops it. Later ones are added to the incident, for the
/// earliest cause may be reported last.
void JobAttempt::on(WorkerFailed event, Instant now) {
  JobNode* node = member_with_workers(event.node, event.attempt);
  if (node == nullptr) {
    return;
  }
  if (runs() || stop_.asks_to_save()) {
    open_incident(now);
  } else if (!incident_) {
    return;  // the job is being ended on request: what fails now is no incident
  }
  add_record(*node, std::move(event.record), now);
  hurry(kNotAllCanSave);
  if (runs()) {
    stop(incident_->reason(), StopHow::now, 0, now);
  }
}

/// Workers that exited with 0 did so for one of two reasons: their work is done, or a scheduler
/// told them to save and end (`left`). In the second case the job goes on another time.
void JobAttempt::on(const WorkersFinished& event, Instant now) {
  JobNode* node = member(event.node, event.attempt);
  if (node == nullptr) {
    return;
  }
  if (node->phase == NodePhase::working || node->phase == NodePhase::stopping) {
    add_progress(*node, event.progress, now);
  }
  if (node->phase != NodePhase::working) {
    return;  // while stopping, WorkersStopped is what counts
  }
  DDP_CHECK(working_ > 0, "a working member was counted");
  node->phase = NodePhase::finished;
  ++finished_;
  --working_;
  left_unasked_ = left_unasked_ || event.progress.left;
}

bool JobAttempt::on(const WorkersProgress& event, Instant now) {
  JobNode* node = member_with_workers(event.node, event.attempt);
  if (node == nullptr) {
    return false;
  }
  add_progress(*node, event.progress, now);
  return runs();
}

/// Without an order to stop, its agent ended the workers for a reason of its own, such as a worker
/// that failed: the records say so, and all others have to stop.
void JobAttempt::on(WorkersStopped event, Instant now) {
  JobNode* node = member_with_workers(event.node, event.attempt);
  if (node == nullptr) {
    return;
  }
  const bool unasked = runs();
  if (unasked) {
    open_incident(now);
  }
  add_progress(*node, event.progress, now);
  if (incident_) {
    for (FailureRecord& record : event.records) {
      add_record(*node, std::move(record), now);
    }
    incident_->count_dropped(std::max(event.records_dropped, 0));
  }
  if (unasked) {
    is_gone(*node);
    node->phase = NodePhase::stopped;
    stop(incident_->reason(), StopHow::now, 0, now);
    return;
  }
  if (!stop_.account(event.progress)) {
    hurry(kNotAllCanSave);
  }
  is_gone(*node);
  node->phase = NodePhase::stopped;
}

/// Which rank is late only all nodes together can tell. So the order to stop asks all of them
/// where their workers stand (StopHow::hang), and their answers come as events of this kind, too.
void JobAttempt::on(const WorkersHung& event, Instant now) {
  JobNode* node = member_with_workers(event.node, event.attempt);
  if (node == nullptr) {
    return;
  }
  if (runs()) {
    open_incident(now).hung(now);
  } else if (!incident_) {
    return;  // the job is being ended on request
  }
  add_positions(*node, event.positions);
  if (runs()) {
    stop(event.why + " on " + node->host_name + " (--hang-timeout)", StopHow::hang, 0, now);
  }
}

// --- What ends it ---------------------------------------------------------------------------

/// No further attempt begins before all of these have answered, or are lost: workers of two
/// attempts must never be alive at once.
void JobAttempt::stop(const std::string& reason, StopHow how, int signal, Instant now) {
  DDP_CHECK(runs(), "only a running attempt can be stopped");
  DDP_CHECK(stopping_ == 0, "nobody is being stopped yet");
  state_ = State::stopping;
  stop_.begin(how);
  if (!incident_) {
    history_.stopping(now);
  }
  // The finished ones are asked as well: the next attempt does their work again, and begins only
  // when they have confirmed that no process is left.
  for (auto& [id, node] : nodes_.all()) {
    if (node.phase == NodePhase::working || node.phase == NodePhase::finished) {
      node.phase = NodePhase::stopping;
      ++stopping_;
      commands_.push_back(StopWorkers{id, *number_, reason, how, signal});
    }
  }
  DDP_CHECK(stopping_ >= working_, "every working member is sent the order");
  working_ = 0;
}

void JobAttempt::hurry(const std::string& reason) {
  if (!is_stopping() || !stop_.hurry()) {
    return;
  }
  for (const auto& [id, node] : nodes_.all()) {
    if (node.phase == NodePhase::stopping) {
      commands_.push_back(StopWorkers{id, *number_, reason, StopHow::now, 0});
    }
  }
}

/// Workers that end because of a failure have nothing to save, so nobody is told.
void JobAttempt::preempt_too(const std::string& reason, int signal) {
  if (stop_.asks_to_save()) {
    order_again(reason, StopHow::preempt, signal);
  }
}

void JobAttempt::end_too(const std::string& reason, int signal) {
  (void)stop_.hurry();
  order_again(reason, StopHow::now, signal);
}

/// Also to members that have stopped: whoever loses this coordinator asks the next one for the end
/// that it was told, and all have to ask for the same.
void JobAttempt::order_again(const std::string& reason, StopHow how, int signal) {
  DDP_CHECK(is_stopping(), "only an order that was given is given again");
  for (const auto& [id, node] : nodes_.all()) {
    if (node.phase == NodePhase::stopping || node.phase == NodePhase::stopped) {
      commands_.push_back(StopWorkers{id, *number_, reason, how, signal});
    }
  }
}

/// A loss costs no restart, and everything else may be its consequence: so it is told to the
/// incident with the time at which the node was last known to be alive.
void JobAttempt::lost(const JobNode& node, const std::string& why, Instant lost_at, Instant now) {
  DDP_CHECK(node.phase != NodePhase::idle, "it was a member");
  is_gone(node);
  switch (node.phase) {
    case NodePhase::idle:
    case NodePhase::finished:  // it owed nothing any more, and disturbs nobody
      break;
    case NodePhase::working:
      open_incident(now).node_lost(node.host_name, why, lost_at);
      stop(incident_->reason(), StopHow::now, 0, now);
      break;
    case NodePhase::stopping:
    case NodePhase::stopped:
      DDP_CHECK(is_stopping(), "only a stopping attempt has stopped nodes");
      // Its loss may be what the others failed of: the report of it comes later than theirs.
      if (incident_) {
        incident_->node_lost(node.host_name, why, lost_at);
      }
      stop_.lost_one();
      if (stopping_ > 0) {
        hurry(kNotAllCanSave);
      }
      break;
  }
}

/// As if it were lost; but its agent is here, and says that no worker runs.
void JobAttempt::gave_up(JobNode& node, const std::string& why, Instant now) {
  const std::string gave_up = "it gave up: " + why;
  const NodePhase phase = node.phase;
  if (phase != NodePhase::working && phase != NodePhase::stopping) {
    node.phase = NodePhase::idle;
    return;  // it owes nothing any more
  }
  is_gone(node);
  node.phase = NodePhase::idle;
  if (phase == NodePhase::working) {
    open_incident(now).node_lost(node.host_name, gave_up, now);
    stop(incident_->reason(), StopHow::now, 0, now);
    return;
  }
  if (incident_) {
    incident_->node_lost(node.host_name, gave_up, now);
  }
  stop_.lost_one();
  if (stopping_ > 0) {
    hurry(kNotAllCanSave);
  }
}

void JobAttempt::stop_for_leaver(const JobNode& node, Instant now) {
  DDP_CHECK(node.phase == NodePhase::working, "only a member that works is missed");
  open_incident(now).node_leaves(node.host_name, now);
  stop(incident_->reason(), StopHow::save, 0, now);
}

/// Growth is nobody's failure, so it spends nothing (IncidentBuilder::spends_restart).
void JobAttempt::stop_to_grow(const JobNode& node, StopHow how, Instant now) {
  DDP_CHECK(node.phase == NodePhase::idle, "who is in the world already is no growth");
  open_incident(now).node_joined(node.host_name, now);
  stop(incident_->reason(), how, 0, now);
}

bool JobAttempt::all_stopped() const {
  return is_stopping() && stopping_ == 0;
}

std::optional<IncidentBuilder> JobAttempt::take_incident() {
  return std::exchange(incident_, std::nullopt);
}

// --- Its members ----------------------------------------------------------------------------

/// The member that speaks of the current attempt; null for everybody else.
JobNode* JobAttempt::member(NodeId id, AttemptNumber attempt) {
  JobNode* node = nodes_.find(id);
  if (node == nullptr || node->phase == NodePhase::idle || number_ != attempt) {
    return nullptr;
  }
  DDP_CHECK(lives(), "only an attempt that lives has members");
  return node;
}

/// A member that has not reported yet that none of its workers is left. What it reports after that
/// is a repetition.
JobNode* JobAttempt::member_with_workers(NodeId id, AttemptNumber attempt) {
  JobNode* node = member(id, attempt);
  const bool none_left =
      node != nullptr && (node->phase == NodePhase::finished || node->phase == NodePhase::stopped);
  return none_left ? nullptr : node;
}

/// Takes this member out of the counts; its phase is the one that it was counted in.
void JobAttempt::is_gone(const JobNode& node) {
  if (node.phase == NodePhase::stopping) {
    --stopping_;
  } else if (node.phase == NodePhase::working) {
    --working_;
  }
  // While stopping nobody waits for a start any more, so the count of these is left as it is.
  const bool may_start = node.phase == NodePhase::working || node.phase == NodePhase::finished;
  unstarted_ -= may_start && !node.started ? 1 : 0;
  DDP_CHECK(working_ >= 0 && stopping_ >= 0 && unstarted_ >= 0, "a member is counted once");
}

IncidentBuilder& JobAttempt::open_incident(Instant now) {
  if (!incident_) {
    DDP_CHECK(lives(), "an incident begins in an attempt that lives");
    incident_.emplace(*number_, now, world_size_);
  }
  return *incident_;
}

void JobAttempt::add_record(const JobNode& node, FailureRecord record, Instant now) {
  DDP_CHECK(incident_.has_value(), "records belong to an incident");
  record.node = node.host_name;
  record.group_rank = node.last_group_rank.value_or(0);
  if (is_own_rank(node, record.rank)) {
    incident_->add(std::move(record), now);
  }
}

void JobAttempt::add_positions(const JobNode& node, const std::vector<WorkerPosition>& positions) {
  DDP_CHECK(incident_.has_value(), "positions belong to an incident");
  std::vector<WorkerPosition> own;
  std::copy_if(positions.begin(), positions.end(), std::back_inserter(own),
               [&](const WorkerPosition& one) { return is_own_rank(node, one.rank); });
  incident_->add_positions(node.host_name, node.last_group_rank.value_or(0), own);
}

void JobAttempt::add_progress(JobNode& node, TrainingProgress told, Instant now) {
  story_.told = story_.told || told.told;
  story_.stepped = story_.stepped || told.first_step_after.has_value();
  story_.steps = std::max(story_.steps, told.steps);
  story_.saved = std::max(story_.saved, told.saved);
  if (told.first_step_after && std::exchange(node.stepped, true)) {
    told.first_step_after.reset();  // the history takes the first step of a node once
  }
  history_.progress(told, node.last_group_rank == 0, now);
}

/// The simulator checks what needs a walk over all nodes.
void JobAttempt::check_invariants() const {
  DDP_CHECK(working_ >= 0 && unstarted_ >= 0 && stopping_ >= 0, "counts are not negative");
  switch (state_) {
    case State::none:
      DDP_CHECK(working_ == 0 && stopping_ == 0, "nothing lives between attempts");
      DDP_CHECK(!incident_, "an incident is dealt with before the next attempt");
      break;
    case State::running:
      DDP_CHECK(number_.has_value(), "what runs has a number");
      DDP_CHECK(working_ > 0, "a running attempt has somebody to wait for");
      DDP_CHECK(stopping_ == 0 && !incident_, "nobody stops a running attempt");
      break;
    case State::stopping:
      DDP_CHECK(stopping_ > 0, "somebody is waited for");
      DDP_CHECK(working_ == 0, "all were told to stop");
      break;
  }
}

}  // namespace ddprun
