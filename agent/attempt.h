// Attempt: the workers of one attempt on this node as real processes, with their environment, log
// files, stderr and progress channels, and afterwards the evidence of how they ended. It decides
// nothing: worker_group does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/console.h"
#include "agent/job_spec.h"
#include "agent/log_filter.h"
#include "agent/log_follower.h"
#include "agent/log_layout.h"
#include "agent/stderr_relay.h"
#include "agent/worker_process.h"
#include "rendezvous/base/result.h"
#include "rendezvous/contract/progress_channel.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// The agent's own two output streams.
struct Consoles {
  Console& out;
  Console& err;
};

class Attempt {
 public:
  using OnExit = std::function<void(int local_rank, ExitStatus)>;

  /// `spec`, `layout` and the consoles outlive the attempt.
  Attempt(boost::asio::io_context& io, const JobSpec& spec, const LogLayout& layout,
          Consoles consoles, World world, std::string node);
  ~Attempt();

  /// Makes the directories and spawns every worker. When one cannot be spawned, those that run
  /// are killed, and the Error says why. `on_exit` is called on the loop.
  Result<void> start(const OnExit& on_exit);

  /// To every worker that still runs.
  void signal_all(int number);

  /// The record of a worker that has ended: reads its error file and the end of its stderr.
  [[nodiscard]] FailureRecord record(int local_rank, ExitStatus exit, bool after_stop) const;

  /// Why this process of ours is being ended, for the record of the worker that it is; if it is a
  /// worker.
  void note_reason(pid_t pid, std::string reason);

  /// What the workers told; the loss is that of the lowest rank that told one.
  [[nodiscard]] TrainingProgress progress() const;

  /// Nobody writes any more: shows what is left of the teed files, then calls `done`.
  void finish_logs(std::function<void()> done);

  [[nodiscard]] const World& world() const { return world_; }

 private:
  struct Worker;
  Result<void> prepare_logs(Worker& worker, const WorkerLogs& logs);
  Result<void> follow(const std::string& path, const std::string& filtered_path,
                      const std::vector<std::string>& filters, Console& console, int local_rank);
  Result<void> spawn(int local_rank, const std::vector<std::string>& inherited,
                     const OnExit& on_exit);

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  const LogLayout& layout_;
  Consoles consoles_;
  World world_;
  std::string node_;
  std::chrono::steady_clock::time_point assigned_;
  std::unique_ptr<LogFollower> follower_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace ddprun
