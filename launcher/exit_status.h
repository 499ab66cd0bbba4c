// The one list of exit codes. Only main, and the guardian for an agent that was killed, turn a
// result into one of these.
#pragma once

namespace ddprun {

/// Every worker of the job ended with 0; also --help and --version.
inline constexpr int kExitSuccess = 0;
/// The job failed, was stopped by a signal, or could not be started; torchrun's 1, whatever code
/// the worker had. The sentence on stderr tells which.
inline constexpr int kExitFailure = 1;
/// The command line cannot be read: unknown option, missing program, a word for a number.
inline constexpr int kExitUsage = 2;

/// The job was preempted: the same command goes on from where it is (EX_TEMPFAIL of sysexits.h).
inline constexpr int kExitResume = 75;
/// --require-same-env, and the nodes differ: no worker was started. sysexits.h's EX_CONFIG, so that
/// a job script can tell it from a failure that another try might mend.
inline constexpr int kExitDisagreed = 78;

/// The agent itself was killed by a signal: as a shell says it.
constexpr int exit_code_of_signal(int signal_number) {
  return 128 + signal_number;
}

}  // namespace ddprun
