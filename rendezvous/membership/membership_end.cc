// Membership's rules for the end of the job. Everybody is told it only when so many nodes know it
// that no successor could go on: else a coordinator that dies while it tells the end would leave
// some that do the work again, beside others for whom the job is over.
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {

void Membership::end_job(Ending ending) {
  if (state_ == JobState::ending || state_ == JobState::over) {
    return;
  }
  ending_ = std::move(ending);
  if (state_ == JobState::running) {
    begin_stop(ending_->reason);
  } else if (state_ == JobState::gathering) {
    finish(*ending_);
  } else {
    hurry(ending_->reason);
  }
}

/// The end is decided, and nothing runs any more.
void Membership::finish(Ending ending) {
  DDP_CHECK(state_ != JobState::ending && state_ != JobState::over, "a job ends once");
  record_.closed(now_, ending.verdict);
  ending_ = std::move(ending);
  state_ = JobState::ending;
  working_ = stopping_ = unstarted_ = 0;
  for (auto& [id, node] : nodes_) {
    node.phase = Phase::idle;
  }
  leadership_.drop_plan();
  plan_pause_ = {};
  not_before_ = now_;
  gathering_.begin(now_, false);
  try_end();
}

/// The coordinator before had decided it, and may have told it to some.
void Membership::inherit_end(const JobSummary& told) {
  ending_ = Ending{told.verdict, told.reason, told.stop_signal};
  state_ = JobState::ending;
}

void Membership::try_end() {
  DDP_CHECK(state_ == JobState::ending, "only a decided end is told");
  if (waits_for_followers()) {
    return;
  }
  if (!leadership_.quorum_follows()) {
    end_without_quorum();
  } else if (!leadership_.planning() && now_ >= not_before_) {
    plan();
  }
}

/// Without a quorum the job may continue elsewhere. Verdicts about the whole job wait for a quorum;
/// a local stop or give-up does not.
void Membership::end_without_quorum() {
  const bool of_all = ending_->verdict == Verdict::succeeded || ending_->verdict == Verdict::failed;
  if (of_all && now_ < gathering_.join_deadline()) {
    return;
  }
  if (of_all) {
    const std::string decided =
        ending_->reason.empty() ? "all workers exited with 0" : ending_->reason;
    ending_ = Ending{Verdict::impossible,
                     decided + "; but the job may go on elsewhere: " + quorum_missing_text(), 0};
  }
  tell_end();
}

void Membership::tell_end() {
  JobSummary summary = record_.summary(ending_->verdict, ending_->reason, now_);
  summary.stop_signal = ending_->stop_signal;
  summary.restarts_used = policy_.budget().used();
  summary.max_restarts = policy_.budget().max();
  state_ = JobState::over;
  contenders_.clear();  // they are sent the summary as all others are
  leadership_.drop_plan();
  commands_.push_back(FinishJob{std::make_shared<JobSummary>(std::move(summary))});
}

}  // namespace ddprun
