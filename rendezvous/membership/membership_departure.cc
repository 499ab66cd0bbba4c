// Membership's rules for all that ends workers on request: the job's end, a preemption, a node that
// leaves in order. What is saved first is the workers' to do; this only asks, and draws its
// conclusions from how they ended.
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {
namespace {

std::string clause_of(const StopRequested& event, const std::string& host_name) {
  return event.signal == 0
             ? "the deadline of node " + host_name + " has come"
             : signal_name(event.signal) + " was sent to the agent of node " + host_name;
}

}  // namespace

void Membership::on(StopRequested event) {
  if (auto contender = contenders_.extract(event.node)) {
    // It is no node of the job: only its own wait ends.
    commands_.push_back(
        Reject{event.node,
               (event.signal == 0 ? "its deadline came"
                                  : signal_name(event.signal) + " was sent to its agent") +
                   " while it waited for its rank",
               {}});
    return;
  }
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end() || state_ == JobState::over) {
    return;
  }
  const std::string why = clause_of(event, found->second.host_name);
  if (state_ == JobState::ending) {
    if (!leadership_.quorum_follows()) {  // else it is about to be told
      const bool ends = event.wish == StopWish::end;
      ending_ = Ending{ends ? Verdict::stopped : Verdict::preempted, why, event.signal};
      tell_end();  // for those who are here: whoever comes may have been told another end
    }
    return;
  }
  switch (event.wish) {
    case StopWish::end:
      // A stop wins over whatever else ends the job: a scheduler that signals all its processes at
      // once makes workers fail a moment before the agents say why.
      if (!ending_ || ending_->verdict != Verdict::stopped) {
        end_job({Verdict::stopped, why, event.signal});
      }
      break;
    case StopWish::preempt:
      preempt({Verdict::preempted, why, event.signal});
      break;
    case StopWish::leave:
      let_go(event.node, found->second, event.signal);
      break;
  }
}

void Membership::preempt(Ending ending) {
  // Of failed workers the signal may be the cause: schedulers signal them and us together.
  if (ending_ && ending_->verdict != Verdict::failed) {
    return;
  }
  ending_ = std::move(ending);
  if (state_ == JobState::gathering) {
    finish(*ending_);  // nothing runs that could be lost
  } else if (state_ == JobState::running) {
    begin_stop(ending_->reason, StopHow::preempt, ending_->stop_signal);
  }
}

/// The node leaves in order, and the others go on without it.
void Membership::let_go(NodeId id, Node& node, int signal) {
  if (node.leaving || node.witness || finished_ > 0) {
    return;  // it is about to leave, or all are
  }
  if (workers_here() == 1 && state_ != JobState::gathering) {
    preempt({Verdict::preempted,
             "node " + node.host_name + " was asked to leave, and no other is here", signal});
    return;
  }
  if (node.hosts_coordinator) {
    // Nobody could take the job over without a moment in which nobody decides for it: this node
    // goes on for the others, without workers.
    node.witness = true;
    ++witnesses_;
    tell_turn(id,
              "this node runs no workers any more, and goes on as the coordinator of the others");
  } else {
    node.leaving = true;
    ++leaving_;
  }
  if (state_ == JobState::gathering) {
    gathering_.changed(now_);
    leadership_.drop_plan();  // of a world with this node
    release_leaving();
    try_start();
  } else if (state_ == JobState::running && node.phase == Phase::working) {
    incident().node_leaves(node.host_name, now_);
    begin_stop(incident().reason(), StopHow::save);
  } else if (state_ == JobState::running) {
    release_leaving();
  }
}

/// The node cannot run workers, and says why. Its agent ends by itself; but that of the coordinator
/// goes on for the others, without workers.
void Membership::go_on_without(NodeId id, Node& node, const std::string& why) {
  const std::string gave_up = "it gave up: " + why;
  if (node.hosts_coordinator) {
    node.witness = true;
    ++witnesses_;
    tell_turn(id, "this node runs no workers (" + why +
                      "), and goes on as the coordinator of the others");
  } else {
    node.leaving = node.released = true;
    ++leaving_;
  }
  switch (std::exchange(node.phase, Phase::idle)) {
    case Phase::working:
      --working_;
      unstarted_ -= node.started ? 0 : 1;
      incident().node_lost(node.host_name, gave_up, now_);
      begin_stop(incident().reason());
      break;
    case Phase::stopping:
      if (incident_) {
        incident_->node_lost(node.host_name, gave_up, now_);
      }
      all_in_order_ = all_complete_ = false;
      if (--stopping_ == 0) {
        all_stopped();
      } else {
        hurry("not all can save any more");
      }
      break;
    case Phase::idle:
      gathering_.changed(now_);
      leadership_.drop_plan();  // of a world with this node
      try_start();
      break;
    case Phase::finished:
    case Phase::stopped:  // it owes nothing any more
      break;
  }
}

/// Those that no world needs any more, nor its quorum.
void Membership::release_leaving() {
  for (auto& [id, node] : nodes_) {
    if (node.leaving && !node.released && node.phase == Phase::idle) {
      node.released = true;
      JobSummary so_far = *story();
      so_far.verdict = Verdict::left;
      so_far.reason = "it was asked to leave";
      commands_.push_back(Release{id, std::make_shared<JobSummary>(std::move(so_far))});
    }
  }
}

/// What was to be saved is not to be saved any more, or cannot be: a peer is missing.
void Membership::hurry(const std::string& reason) {
  if (state_ != JobState::stopping || how_ == StopHow::now) {
    return;
  }
  how_ = StopHow::now;
  for (const auto& [id, node] : nodes_) {
    if (node.phase == Phase::stopping) {
      commands_.push_back(StopWorkers{id, *attempt_, reason, StopHow::now, 0});
    }
  }
}

/// How a member's workers ended that were asked to save.
void Membership::account(const TrainingProgress& told) {
  all_complete_ = all_complete_ && told.complete;
  all_in_order_ = all_in_order_ && (told.complete || told.left);
  any_told_ = any_told_ || told.told;
  if (told.told && !told.complete && !told.left) {
    hurry("not all can save any more");  // the others wait for it in a collective
  }
}

/// The order met workers that were about to end anyway, or that knew nothing of it.
void Membership::conclude_order() {
  if (how_ != StopHow::now && all_complete_ && (!incident_ || !incident_->spends_restart())) {
    ending_ = Ending{Verdict::succeeded, {}, 0};
    return;
  }
  if (ending_ && ending_->verdict == Verdict::preempted && !all_in_order_ && !any_told_ &&
      ending_->stop_signal == kSigTerm) {
    // Workers that the signal ended, as it ends any process: as it is under torchrun.
    ending_->verdict = Verdict::stopped;
  }
}

}  // namespace ddprun
