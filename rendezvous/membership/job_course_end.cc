// The part of JobCourse that leads from an attempt to what follows it, and to the end of the job.
#include <algorithm>
#include <memory>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/incident_line.h"
#include "rendezvous/membership/job_course.h"

namespace ddprun {
namespace {

/// How long a person who stops a job that gathers waits for the nodes that are still starting.
constexpr std::chrono::seconds kStopPatience{1};

/// People at two nodes read of a failure when it happens: at the one where it happened, and at the
/// coordinator's. Of a lost coordinator each node has told by itself, and growth is no failure.
bool is_told_at_once(const Incident& incident) {
  return incident.kind == IncidentKind::worker_failed || incident.kind == IncidentKind::node_lost;
}

std::vector<NodeId> nodes_to_tell(const Incident& incident, const JobNodes& nodes) {
  const bool has_cause =
      !incident.records.empty() && incident.records.front().blame == Blame::cause;
  const FailureRecord* cause = has_cause ? &incident.records.front() : nullptr;
  std::vector<NodeId> told;
  for (const auto& [id, node] : nodes.all()) {
    const bool of_cause = cause != nullptr && node.last_group_rank == cause->group_rank &&
                          node.host_name == cause->node;
    if (of_cause || node.hosts_coordinator) {
      told.push_back(id);
    }
  }
  return told;
}

}  // namespace

// --- After an attempt -----------------------------------------------------------------------

/// The only way out of an attempt. It is asked after the event is dealt with, so that a loss in the
/// middle of a stop is in the incident before that one is closed.
void JobCourse::attempt_changed() {
  if (attempt_.all_finished()) {
    finish(attempt_.left_unasked()
               ? JobEnding{Verdict::preempted, "its workers were signalled to save and end", 0}
               : JobEnding{Verdict::succeeded, {}, 0});
  } else if (attempt_.all_stopped()) {
    attempt_stopped();  // at once: no timer lies on this path
  }
}

/// In this order: how the workers ended may decide the end of the job; that decides whether the
/// incident costs a restart; and the budget may end the job after all.
void JobCourse::attempt_stopped() {
  attempt_.end();
  std::optional<IncidentBuilder> incident = attempt_.take_incident();
  const bool worker_failed = incident && incident->spends_restart();
  ending_ = attempt_.order().conclude(std::move(ending_), worker_failed);
  if (incident) {
    const JobAccounts::Closed closed =
        accounts_.close(std::move(*incident), attempt_.story(), ending_.has_value(), now_);
    if (!ending_) {
      start_.back_off(now_ + closed.decision.pause);
      if (is_told_at_once(closed.incident)) {
        Aftermath after;
        after.end = closed.decision.end;
        after.next = leadership_.next_attempt();
        after.max_restarts = accounts_.budget().max();
        if (closed.decision.spent) {
          after.restart = accounts_.budget().used();
        }
        after.pause = closed.decision.pause;
        after.missing = std::max(options_.min_nodes - static_cast<int>(nodes_.workers_here()), 0);
        after.snapshot = accounts_.history().ledger().saved().snapshot;
        commands_.push_back(TellIncident{nodes_to_tell(closed.incident, nodes_),
                                         incident_line(closed.incident, after)});
      }
    }
    if (closed.decision.end) {
      ending_ = {Verdict::failed, closed.incident.reason + "; " + *closed.decision.end, 0};
    }
  }
  if (ending_) {
    finish(*ending_);
  } else {
    gather();
  }
}

// --- Wishes ---------------------------------------------------------------------------------

void JobCourse::end_job(JobEnding ending) {
  switch (state()) {
    case JobState::gathering:
      finish(std::move(ending), kStopPatience);
      break;
    case JobState::running:
      ending_ = std::move(ending);
      // With the signal that asked for it: if this coordinator is lost, its nodes ask the next one.
      attempt_.stop(ending_->reason, StopHow::now, ending_->stop_signal, now_);
      break;
    case JobState::stopping:
      ending_ = std::move(ending);
      attempt_.end_too(ending_->reason, ending_->stop_signal);
      break;
    case JobState::ending:
    case JobState::over:
      break;
  }
}

void JobCourse::preempt(JobEnding ending) {
  // Of failed workers the signal may be the cause: schedulers signal them and us together.
  if (ending_ && ending_->verdict != Verdict::failed) {
    // What only a job is sent that is to be started again says more than a SIGTERM before it.
    if (ending_->verdict == Verdict::preempted && ending_->stop_signal == kSigTerm) {
      ending_ = std::move(ending);
    }
    return;
  }
  const JobState state = this->state();
  if (state == JobState::gathering) {
    finish(std::move(ending), options_.heartbeat_timeout);  // nothing runs that could be lost
    return;
  }
  ending_ = std::move(ending);
  if (state == JobState::running) {
    attempt_.stop(ending_->reason, StopHow::preempt, ending_->stop_signal, now_);
  } else {
    attempt_.preempt_too(ending_->reason, ending_->stop_signal);
  }
}

/// Agents repeat to a successor what they asked of the coordinator before it: that must not end the
/// job before the others are here. Nodes that are still starting are waited for out of courtesy.
void JobCourse::end_here(JobEnding ending, bool again) {
  DDP_CHECK(state() == JobState::ending, "the end is decided, and not told yet");
  const bool ends = ending.verdict == Verdict::stopped;
  if (start_.waits_for_followers(now_, nodes_.size())) {
    if (options_.inheritance || leadership_.planning() || !(ends || again)) {
      return;
    }
    if (ends && ending_->verdict == Verdict::preempted) {
      ending_ = std::move(ending);
    }
    start_.expect(0, now_);
    try_end();
  } else if (!leadership_.quorum_follows()) {  // with one the end is about to be told
    ending_ = std::move(ending);
    tell_end();  // for those who are here: whoever comes may have been told another end
  }
}

// --- The end --------------------------------------------------------------------------------

/// The end is decided, and nothing runs any more. The agents of a job start within moments of each
/// other. One that comes when this coordinator is gone would search for it until its join timeout,
/// so nodes that are still starting are waited for a little.
void JobCourse::finish(JobEnding ending, std::chrono::nanoseconds patience) {
  DDP_CHECK(rest_ == Rest::gathering, "a job ends once");
  if (!attempt_.number() && !options_.inheritance) {
    const auto all = static_cast<std::size_t>(options_.max_nodes);
    start_.expect(all - std::min(absent_.refused_for_good(), all),
                  now_ + std::min(patience, options_.heartbeat_timeout));
  }
  // Members that gave this coordinator up, as after a stall of its agent, search for one. Nobody
  // could tell them the verdict later.
  start_.expect_back(nodes_.size(), now_);
  accounts_.history().closed(now_, ending.verdict);
  ending_ = std::move(ending);
  attempt_.end();
  rest_ = Rest::ending;
  leadership_.drop_plan();
  start_.back_off(now_);
  start_.begin(now_, false);  // for how long a quorum is waited for
  try_end();
}

void JobCourse::try_end() {
  DDP_CHECK(state() == JobState::ending, "only a decided end is told");
  if (start_.waits_for_followers(now_, nodes_.size())) {
    return;
  }
  if (!leadership_.quorum_follows()) {
    end_without_quorum();
  } else if (!leadership_.planning() && !start_.is_paused(now_)) {
    plan();
  }
}

/// Without a quorum the job may continue elsewhere. Verdicts about the whole job wait for a quorum;
/// a local stop or give-up does not.
void JobCourse::end_without_quorum() {
  DDP_CHECK(ending_.has_value(), "the end is decided");
  const bool of_all = ending_->verdict == Verdict::succeeded || ending_->verdict == Verdict::failed;
  if (of_all && now_ < start_.gathering().join_deadline()) {
    return;
  }
  if (of_all) {
    const std::string decided =
        ending_->reason.empty() ? "all workers exited with 0" : ending_->reason;
    ending_ = {Verdict::impossible,
               decided + "; but the job may go on elsewhere: " + quorum_missing_text(facts()), 0};
  }
  tell_end();
}

/// Nothing follows: from here on the coordinator only answers, until all nodes have the summary.
void JobCourse::tell_end() {
  DDP_CHECK(ending_.has_value(), "a job ends with a verdict");
  JobSummary summary = accounts_.summary(*ending_, now_);
  rest_ = Rest::over;
  leadership_.drop_plan();
  commands_.push_back(FinishJob{std::make_shared<JobSummary>(std::move(summary))});
}

}  // namespace ddprun
