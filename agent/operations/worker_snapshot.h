// WorkerSnapshot: how one local worker is: what it tells by its progress channel, and what the
// kernel counts of it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/contract/progress_channel.h"
#include "rendezvous/membership/failure.h"

namespace ddprun {

struct WorkerSnapshot {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  std::optional<ExitStatus> exit;  ///< none: it runs
  // What it tells; none where it does not use the worker runtime.
  std::string phase;  ///< "training"; empty: not told
  std::optional<std::int64_t> steps;
  /// Since its first step in this attempt; none before its second.
  std::optional<double> steps_per_second;
  /// Of the whole run, attempts before this one among them; none where it does not say how many it
  /// is to have.
  std::optional<std::int64_t> run_step;
  std::int64_t run_steps = 0;         ///< planned
  std::optional<std::int64_t> epoch;  ///< the last that it has finished
  std::optional<double> loss;
  std::uint64_t collectives = 0;  ///< entered so far, CPU's and GPU's together
  // What the kernel counts; 0 once it has ended. What its own children use is not in it until they
  // have ended: to look through them all takes too long for who asks each second.
  std::chrono::nanoseconds cpu{};
  std::uint64_t resident_bytes = 0;
  // Files of its output; empty: it has none.
  std::string stdout_path;
  std::string stderr_path;
};

/// Puts in what the worker has told. Pure but for the page.
void add_told(WorkerSnapshot& worker, const ProgressPage& page);
/// Puts in what the kernel counts of its pid, which has not been reaped.
void add_usage(WorkerSnapshot& worker);

}  // namespace ddprun
