#include "rendezvous/membership/job_accounts.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// --max-restarts has an option of its own, beside the rules of --on and --restart-window.
RestartRules restart_rules(const MembershipOptions& options) {
  RestartRules rules = options.restarts;
  rules.max_restarts = options.max_restarts;
  return rules;
}

}  // namespace

JobAccounts::JobAccounts(const MembershipOptions& options) : policy_(restart_rules(options)) {}

/// What the lost coordinator told as of a time after its loss cannot be: the clocks of two agents
/// differ by the way of the message.
void JobAccounts::resume(JobSummary so_far, Instant told_at, Instant lost_at) {
  history_ = {};
  policy_.resume(so_far.restarts_used, so_far.restart_state, told_at);
  history_.inherit(std::move(so_far), std::min(told_at, lost_at));
}

void JobAccounts::coordinator_lost(AttemptNumber attempt, const std::string& why, Instant lost_at,
                                   Instant now) {
  IncidentBuilder lost(attempt, lost_at, 1);
  lost.coordinator_lost(why);
  history_.ended(lost.build(), {lost_at, now, now});
}

/// Whether a restart is spent is decided here and not at the first report: only now it is known
/// whether the workers that failed were victims of a lost node.
JobAccounts::Closed JobAccounts::close(IncidentBuilder incident, const AttemptStory& story,
                                       bool job_ends, Instant now) {
  const bool by_worker = incident.spends_restart();
  const IncidentInstants when{incident.happened_at(), incident.detected_at(), now};
  DDP_CHECK(when.happened <= when.detected, "nothing is noticed before it happens");
  Closed closed{incident.build(), {}};
  if (!job_ends) {
    closed.decision = policy_.decide(closed.incident, by_worker, story, now);
    closed.incident.spent_restart = closed.decision.spent;
  }
  DDP_CHECK(budget().used() <= budget().max(), "the budget is kept");
  history_.ended(closed.incident, when);
  DDP_CHECK(!closed.incident.spent_restart || budget().used() > 0, "what was spent is counted");
  return closed;
}

JobSummary JobAccounts::summary(const JobEnding& ending, Instant now) const {
  JobSummary summary = history_.summary(ending.verdict, ending.reason, now);
  summary.stop_signal = ending.stop_signal;
  add_budget(summary);
  return summary;
}

/// The state of the restart policy is for the next coordinator; people at the end of a job have no
/// use for it.
JobSummary JobAccounts::so_far(const JobEnding* ending, Instant now) const {
  JobSummary so_far = history_.so_far(now);
  if (ending != nullptr) {
    so_far.verdict = ending->verdict;
    so_far.reason = ending->reason;
    so_far.stop_signal = ending->stop_signal;
  }
  add_budget(so_far);
  so_far.restart_state = policy_.state(now);
  return so_far;
}

void JobAccounts::add_budget(JobSummary& summary) const {
  summary.restarts_used = budget().used();
  summary.max_restarts = budget().max();
}

}  // namespace ddprun
