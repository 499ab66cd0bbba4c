#include "rendezvous/membership/job_history.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/incident.h"

namespace ddprun {

/// The newest incident as the ledger knows it by now.
void JobHistory::refresh() {
  if (!followed_ || incidents_.empty()) {
    return;
  }
  Incident& incident = incidents_.back();
  incident.parts = ledger_.break_down();
  incident.lost = ledger_.lost();
  if (incident.parts.spawn) {
    incident.downtime = incident.parts.sum();
  }
}

/// From here on, what this attempt tells fills in the newest incident (refresh).
void JobHistory::assigned(Instant at, AttemptNumber attempt, int nodes) {
  ++attempts_;
  ledger_.assigned(at, nodes);
  followed_ = true;
  if (!incidents_.empty()) {
    incidents_.back().next_attempt = attempt;
  }
  refresh();
}

void JobHistory::all_started(Instant at) {
  ledger_.all_started(at);
  refresh();
}

/// Every node tells its epochs and its loss; people are shown those of rank 0's node.
void JobHistory::progress(const TrainingProgress& told, bool leads, Instant at) {
  DDP_CHECK(attempts_ > 0, "progress is told of an attempt");
  ledger_.progress(told, at);
  refresh();
  if (followed_ && !incidents_.empty() && told.resumed_from) {
    Incident& incident = incidents_.back();
    if (leads || !incident.resumed_from) {
      incident.resumed_from = told.resumed_from;
    }
  }
  if (!leads) {
    return;
  }
  // Field by field: an attempt that died before its first epoch must not wipe out what is known.
  const auto keep_newer = [](auto& field, const auto& value) {
    if (value) {
      field = value;
    }
  };
  keep_newer(progress_.resumed_from, told.resumed_from);
  keep_newer(progress_.last_epoch, told.last_epoch);
  keep_newer(progress_.loss, told.loss);
  keep_newer(progress_.first_step_after, told.first_step_after);
}

/// The incident before gets its last parts here: only now it is known that its attempt was in vain.
/// Evidence of older incidents goes, because the summary is sent to every node.
void JobHistory::ended(Incident incident, IncidentInstants when) {
  refresh();
  ledger_.ended(incident.kind, when);
  incident.at = ledger_.wall_at(when.happened);
  incident.parts = ledger_.break_down();
  incident.lost = ledger_.lost();
  if (!incidents_.empty()) {
    if (followed_ && ledger_.break_down_before().in_vain) {
      incidents_.back().parts = ledger_.break_down_before();
      incidents_.back().downtime = incidents_.back().parts.sum();
    }
    drop_old_evidence(incidents_.back());
  }
  if (incidents_.size() == kIncidentsMax) {
    incidents_.erase(incidents_.begin());
    ++forgotten_;
  }
  incidents_.push_back(std::move(incident));
  DDP_CHECK(incidents_.size() <= kIncidentsMax, "the summary is bounded");
  followed_ = false;
}

/// The work of a job that succeeded counts as kept, saved or not.
void JobHistory::closed(Instant at, Verdict verdict) {
  ledger_.closed(at, verdict == Verdict::succeeded);
  refresh();
}

/// A summary does not say how many incidents were forgotten, so a successor counts those that it
/// lists.
void JobHistory::inherit(JobSummary so_far, Instant at) {
  DDP_CHECK(attempts_ == 0, "a record is inherited before anything else");
  DDP_CHECK(incidents_.empty() && !followed_, "a record is inherited before anything else");
  ledger_.begin(at, so_far.accounts);
  incidents_ = std::move(so_far.incidents);
  forgotten_ = so_far.incidents_dropped;
  attempts_ = so_far.attempts;
  progress_ = so_far.progress;
}

/// It is sent with each plan to each voter, so evidence is left out, of the newest incident too.
JobSummary JobHistory::so_far(Instant now) const {
  JobSummary summary;
  summary.attempts = attempts_;
  summary.incidents = incidents_;
  summary.incidents_dropped = forgotten_;
  summary.progress = progress_;
  summary.accounts = ledger_.accounts(now);
  for (Incident& incident : summary.incidents) {
    drop_old_evidence(incident);
  }
  return summary;
}

JobSummary JobHistory::summary(Verdict verdict, std::string reason, Instant now) const {
  DDP_CHECK(verdict == Verdict::succeeded || !reason.empty(), "a bad end has a reason");
  JobSummary summary;
  summary.verdict = verdict;
  summary.reason = std::move(reason);
  summary.attempts = attempts_;
  summary.incidents = incidents_;
  summary.incidents_dropped = forgotten_;
  summary.progress = progress_;
  summary.accounts = ledger_.accounts(now);
  return summary;
}

}  // namespace ddprun
