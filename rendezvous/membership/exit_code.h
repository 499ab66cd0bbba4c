// What ddprun exits with at the end of a job: for main, for the event log, and for scripts that say
// by the same code that they have saved. launcher/exit_status.h has the codes of all other ends.
#pragma once

#include "rendezvous/membership/failure.h"

namespace ddprun {

/// Every worker of the job ended with 0, or this node left in order.
inline constexpr int kExitSuccess = 0;
/// The job failed, was stopped by a signal, or could not be started; torchrun's 1, whatever code
/// the worker had. The sentence on stderr tells which.
inline constexpr int kExitFailure = 1;
/// The job was preempted: the same command goes on from where it is (EX_TEMPFAIL of sysexits.h).
inline constexpr int kExitResume = 75;
/// --require-same-env, and the nodes differ: no worker was started. sysexits.h's EX_CONFIG, so that
/// a job script can tell it from a failure that another try might mend.
inline constexpr int kExitDisagreed = 78;

constexpr int exit_code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::succeeded:
    case Verdict::left:
      return kExitSuccess;
    case Verdict::preempted:
      return kExitResume;
    case Verdict::disagreed:
      return kExitDisagreed;
    case Verdict::failed:
    case Verdict::stopped:
    case Verdict::impossible:
      break;
  }
  return kExitFailure;
}

}  // namespace ddprun
