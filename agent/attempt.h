// Attempt: the workers of one attempt on this node as real processes: their environment, log
// files, progress channels and, afterwards, the evidence of how they ended. It decides nothing:
// worker_group does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/job_spec.h"
#include "agent/log_layout.h"
#include "agent/log_follower.h"
#include "agent/worker_process.h"
#include "rendezvous/base/result.h"
#include "rendezvous/contract/progress_channel.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

class Attempt {
 public:
  using OnExit = std::function<void(int local_rank, ExitStatus)>;
  Attempt(boost::asio::io_context& io, const JobSpec& spec, World world)
      : io_(io), spec_(spec), world_(std::move(world)) {}

  /// Makes the directories and spawns every worker; when one cannot be spawned, those already
  /// running are killed and the Error says why.
  Result<void> start(LogRun& logs, ConsoleSink& console, const OnExit& on_exit);

  /// To every worker that still runs.
  void signal_all(int number);

  /// What is known of a worker that did not succeed. Call once it has exited: reads its error file
  /// and the end of its stderr.
  [[nodiscard]] FailureRecord record(int local_rank, ExitStatus exit, bool after_stop) const;

  /// When on_exit was called for this worker, on the steady clock.
  [[nodiscard]] std::chrono::steady_clock::time_point ended(int local_rank) const;

  [[nodiscard]] TrainingProgress progress() const;
};

}  // namespace ddprun
