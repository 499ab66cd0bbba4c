// AttemptStop: the order to end the workers of an attempt, and what their ends say about it. Pure.
//
// An order may ask workers to save first (StopHow::save and preempt). Whether they could is known
// only when all have ended: they may have been about to finish anyway, or may not use the worker
// runtime. This keeps what the members report of it. Attempt (attempt.h) says who is a member.
#pragma once

#include <optional>

#include "rendezvous/membership/job_ending.h"
#include "rendezvous/membership/stop_order.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

class AttemptStop {
 public:
  /// All members are sent this order.
  void begin(StopHow how);
  /// Nothing is saved any more. True: it was asked for until now, so all have to be told.
  bool hurry();
  /// A member will not report: it was lost, or gave up. How its workers ended nobody knows.
  void lost_one() { all_complete_ = false; }
  /// How the workers of a member ended. False: the others cannot save any more, for they wait in a
  /// collective for those that ended.
  bool account(const TrainingProgress& told);

  /// The workers were asked to save, and may still do so.
  [[nodiscard]] bool asks_to_save() const { return how_ != StopHow::now; }
  /// All members have ended. What the end of the job is then, given the one that was decided before
  /// (none: the job goes on) and whether a worker failed.
  [[nodiscard]] std::optional<JobEnding> conclude(std::optional<JobEnding> decided,
                                                  bool worker_failed) const;

 private:
  StopHow how_ = StopHow::now;  ///< hang counts as now
  bool all_complete_ = true;    ///< every member's workers so far had ended by themselves, with 0
  bool all_in_order_ = true;    ///< or as they were asked to; of the members that told
  bool any_told_ = false;       ///< some use the worker runtime
};

}  // namespace ddprun
