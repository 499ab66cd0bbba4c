// JobAccounts: what the whole job has been through and spent: its history (job_history.h) and its
// restarts (restart_policy.h). Pure.
//
// Both go into every summary, the one for people at the end and the ones for successors, and a
// successor continues with both. So no summary leaves with one of them missing.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/membership/command.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/job_ending.h"
#include "rendezvous/membership/job_history.h"
#include "rendezvous/membership/membership_options.h"
#include "rendezvous/membership/restart_policy.h"

namespace ddprun {

class JobAccounts {
 public:
  explicit JobAccounts(const MembershipOptions& options);

  /// Goes on with those of another coordinator, in place of what is here: `so_far` was true at
  /// `told_at`, and that coordinator was lost at `lost_at`.
  void resume(JobSummary so_far, Instant told_at, Instant lost_at);
  /// That loss as an incident: all workers of `attempt` were gone before this began.
  void coordinator_lost(AttemptNumber attempt, const std::string& why, Instant lost_at,
                        Instant now);

  struct Closed {
    Incident incident;
    RestartPolicy::Decision decision;  ///< what follows; nothing where the job ends anyway
  };
  /// The attempt of this incident is over at `now`, and its workers told `story`. `job_ends`: it
  /// was to end anyway, so no restart is spent. A copy of the incident is in the history.
  Closed close(IncidentBuilder incident, const AttemptStory& story, bool job_ends, Instant now);

  /// Of the whole job, with its verdict.
  [[nodiscard]] JobSummary summary(const JobEnding& ending, Instant now) const;
  /// For a successor, or a node that leaves. `ending`: where the job has ended; else null.
  [[nodiscard]] JobSummary so_far(const JobEnding* ending, Instant now) const;

  [[nodiscard]] const JobHistory& history() const { return history_; }
  /// Stays at its place as long as this does.
  [[nodiscard]] JobHistory& history() { return history_; }
  [[nodiscard]] const RestartBudget& budget() const { return policy_.budget(); }

 private:
  void add_budget(JobSummary& summary) const;

  JobHistory history_;
  RestartPolicy policy_;
};

}  // namespace ddprun
