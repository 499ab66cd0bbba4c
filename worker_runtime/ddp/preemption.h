// Preemption: the order to save and leave. The machine is about to be taken away, the job's time is
// up, or its world is about to change: the launcher orders every rank to save at the same step and
// to end, and a later attempt, or a later run of the same command, goes on from exactly there.
//
//     ddp::Preemption preemption(context);
//     ...
//     parallel.begin(batch.size(), preemption.asked());  // the wish travels with the gradients
//     ...
//     parallel.finish();
//     optimizer.step();
//     if (parallel.all_leave()) {                        // the same answer on every rank
//       snapshot.save(...);
//       return preemption.leave();                       // in order: no rank is left behind
//     }
#pragma once

#include "ddp/ddp.h"
#include "ddp/export.h"

namespace ddp {

/// EX_TEMPFAIL of sysexits.h, as ddprun itself: the same command goes on from here.
inline constexpr int kLeftStatus = 75;

/// Call it first of all in a main function that comes to make a Preemption. Up to then no step is
/// done, so there is nothing to save: SIGTERM and SIGUSR1, where the program has not set what they
/// do, end the process at once, whatever it waits for: with kLeftStatus, or where ddprun's agent is
/// told by it with 0. Delivers them also if the parent, or this program before exec(2), has blocked
/// them.
DDP_EXPORT void leave_until_preemption();
/// Back to the default, for a run that turns out to be no training.
DDP_EXPORT void end_by_signals();

/// One per process, made before training begins: from here on the launcher orders instead of ending
/// the worker, and SIGTERM and SIGUSR1 that others than the launcher send to this process (a
/// scheduler that signals every process of a job) are taken as the same order, where the program
/// has not set what they do. A second such signal has its default action; once this process has
/// left and the object is gone, none has any.
class DDP_EXPORT Preemption {
 public:
  explicit Preemption(const Context& context);
  ~Preemption();
  Preemption(const Preemption&) = delete;
  Preemption& operator=(const Preemption&) = delete;

  /// This rank has been told. Others may not have been yet: give it to
  /// DistributedDataParallel::begin(), or to a collective of your own, and leave when all know.
  /// One load of shared memory.
  [[nodiscard]] bool asked() const;
  /// The state is saved (or could not be): the end of this process is no end of the training.
  /// Returns the status that main should return: 0 where ddprun's agent is told by this call, else
  /// kLeftStatus, since to anybody else 0 says that the training is done.
  int leave();

 private:
  Progress progress_;
};

}  // namespace ddp
