// The exit codes: those of a job's end (exit_code.h; also 0 for --help and --version, and 1 for all
// that cannot be started), and of other ends. Only main, and the guardian for an agent that was
// killed, turn a result into one of them.
#pragma once

#include "rendezvous/membership/exit_code.h"

namespace ddprun {

/// The command line cannot be read: unknown option, missing program, a word for a number.
inline constexpr int kExitUsage = 2;

/// The agent itself was killed by a signal: as a shell says it.
constexpr int exit_code_of_signal(int signal_number) {
  return 128 + signal_number;
}

}  // namespace ddprun
