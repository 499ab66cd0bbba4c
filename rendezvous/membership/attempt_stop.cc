#include "rendezvous/membership/attempt_stop.h"

#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/incident.h"

namespace ddprun {

void AttemptStop::begin(StopHow how) {
  // Workers that hang cannot save: StopHow::hang differs from `now` by a question only.
  how_ = how == StopHow::hang ? StopHow::now : how;
  all_complete_ = all_in_order_ = true;
  any_told_ = false;
}

bool AttemptStop::hurry() {
  return std::exchange(how_, StopHow::now) != StopHow::now;
}

bool AttemptStop::account(const TrainingProgress& told) {
  all_complete_ = all_complete_ && told.complete;
  all_in_order_ = all_in_order_ && (told.complete || told.left);
  any_told_ = any_told_ || told.told;
  DDP_CHECK(all_in_order_ || !all_complete_, "workers that completed ended in order");
  // Without the worker runtime nothing is known of collectives, and each worker ends by itself.
  return !told.told || told.complete || told.left;
}

std::optional<JobEnding> AttemptStop::conclude(std::optional<JobEnding> decided,
                                               bool worker_failed) const {
  if (asks_to_save() && all_complete_ && !worker_failed) {
    // The order met workers that were about to end anyway.
    DDP_CHECK(all_in_order_, "workers that completed ended in order");
    return JobEnding{Verdict::succeeded, {}, 0};
  }
  if (decided && decided->verdict == Verdict::preempted && !all_in_order_ && !any_told_ &&
      decided->stop_signal == kSigTerm) {
    // SIGTERM ended these workers as it ends any process, and they saved nothing. Under torchrun
    // the job would count as stopped, too. Of a lost node nothing is known; the others decide.
    decided->verdict = Verdict::stopped;
  }
  return decided;
}

}  // namespace ddprun
