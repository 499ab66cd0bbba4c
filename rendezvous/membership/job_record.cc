#include "rendezvous/membership/job_record.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/incident.h"

namespace ddprun {

Incident* JobRecord::open_incident() {
  return followed_ && !incidents_.empty() ? &incidents_.back() : nullptr;
}

void JobRecord::down_until(Instant at) {
  Incident* incident = open_incident();
  if (incident == nullptr) {
    return;
  }
  DDP_CHECK(at >= detected_at_, "an attempt begins after the incident before it");
  incident->downtime = std::max(incident->downtime.value_or(Instant(0)), at - detected_at_);
}

void JobRecord::assigned(Instant at, AttemptNumber attempt) {
  DDP_CHECK(at >= assigned_at_, "attempts follow each other in time");
  ++attempts_;
  assigned_at_ = at;
  followed_ = true;
  if (!incidents_.empty()) {
    incidents_.back().next_attempt = attempt;
  }
}

void JobRecord::all_started(Instant at) {
  down_until(at);
}

void JobRecord::progress(const TrainingProgress& told, bool leads) {
  DDP_CHECK(attempts_ > 0, "progress is told of an attempt");
  if (told.first_step_after && *told.first_step_after >= Instant(0)) {
    down_until(assigned_at_ + *told.first_step_after);
  }
  if (Incident* incident = open_incident(); incident != nullptr && told.resumed_epoch) {
    if (leads || !incident->resumed_epoch) {
      incident->resumed_epoch = told.resumed_epoch;
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
  keep_newer(progress_.resumed_epoch, told.resumed_epoch);
  keep_newer(progress_.last_epoch, told.last_epoch);
  keep_newer(progress_.loss, told.loss);
  keep_newer(progress_.first_step_after, told.first_step_after);
}

void JobRecord::ended(Incident incident, Instant detected_at) {
  DDP_CHECK(detected_at >= assigned_at_, "an incident ends an attempt that was assigned before");
  if (!incidents_.empty()) {
    drop_old_evidence(incidents_.back());
  }
  if (incidents_.size() == kIncidentsMax) {
    incidents_.erase(incidents_.begin());
  }
  incidents_.push_back(std::move(incident));
  detected_at_ = detected_at;
  followed_ = false;
}

void JobRecord::inherit(JobSummary so_far) {
  DDP_CHECK(attempts_ == 0, "a record is inherited before anything else");
  incidents_ = std::move(so_far.incidents);
  attempts_ = so_far.attempts;
  progress_ = so_far.progress;
}

JobSummary JobRecord::so_far() const {
  JobSummary summary;
  summary.attempts = attempts_;
  summary.incidents = incidents_;
  summary.progress = progress_;
  for (Incident& incident : summary.incidents) {
    drop_old_evidence(incident);
  }
  return summary;
}

JobSummary JobRecord::summary(Verdict verdict, std::string reason) const {
  DDP_CHECK(verdict == Verdict::succeeded || !reason.empty(), "a bad end has a reason");
  JobSummary summary;
  summary.verdict = verdict;
  summary.reason = std::move(reason);
  summary.attempts = attempts_;
  summary.incidents = incidents_;
  summary.progress = progress_;
  return summary;
}

}  // namespace ddprun
