// Attempt: the workers of one attempt on this node as real processes, with their environment, log
// files, stderr and progress channels, and afterwards the evidence of how they ended. It decides
// nothing: worker_group does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/hang/hang_detector.h"
#include "agent/hang/stack_collector.h"
#include "agent/job_spec.h"
#include "agent/operations/worker_snapshot.h"
#include "agent/output/attempt_output.h"
#include "agent/output/log_layout.h"
#include "agent/process/worker_process.h"
#include "agent/warm/warm_pool.h"
#include "rendezvous/base/result.h"
#include "rendezvous/contract/progress_channel.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/hang_diagnosis.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

class Attempt {
 public:
  using OnExit = std::function<void(int local_rank, ExitStatus)>;

  /// `spec`, `layout`, the consoles and `warm` (null: none are kept) outlive the attempt.
  Attempt(boost::asio::io_context& io, const JobSpec& spec, const LogLayout& layout,
          Consoles consoles, World world, std::string node, WarmPool* warm);
  ~Attempt();

  /// To be called before start(): the workers of the other nodes come by this interface.
  void use_network(std::string interface) { network_interface_ = std::move(interface); }

  /// Makes the directories and spawns every worker. When one cannot be spawned, those that run
  /// are killed, and the Error says why. `on_exit` is called on the loop.
  Result<void> start(const OnExit& on_exit);

  // When the job hangs. What the workers show of themselves, by local rank:
  [[nodiscard]] std::vector<WorkerSigns> signs() const;
  /// Where those that run stand; `now` is CLOCK_MONOTONIC's.
  [[nodiscard]] std::vector<WorkerPosition> positions(std::chrono::nanoseconds now) const;
  /// Those that run, for who only wants to look.
  [[nodiscard]] std::vector<StackTarget> running() const;
  /// The same. keep_stacks() takes what came of them, in the same order, for their records.
  [[nodiscard]] std::vector<StackTarget> stack_targets();
  void keep_stacks(std::vector<NewestFrames> newest);
  /// How each is, also those that have ended.
  [[nodiscard]] std::vector<WorkerSnapshot> snapshots() const;
  /// What the workers wrote last, in the order of their ranks.
  [[nodiscard]] std::vector<StreamTail> output_tails() const;
  /// "process 12 (rank 3), which is in an uninterruptible wait (state D in nfs_wait)", of each that
  /// runs.
  [[nodiscard]] std::string survivors() const;

  /// To every worker that still runs. After keep_stacks(), a worker that does not catch SIGTERM but
  /// SIGABRT gets that one: it is Python with its fault handler on, and tells its stack by it.
  /// SIGTERM is marked as ours on the progress channel first.
  /// Then who had written its error file is looked up; not where it `fences`: a disk may hang.
  void signal_all(int number, bool fences);
  /// Dead before its first signal, though the order for that may have been there before the news.
  [[nodiscard]] bool ended_unasked(int local_rank) const;
  /// Of the workers that still run: all follow orders to save and leave (ddp::Preemption).
  [[nodiscard]] bool obeys() const;
  /// One has ended for a signal that is meant for all (ProgressPage::kLeftAlone).
  [[nodiscard]] bool left_alone() const;
  /// All have a handler for the signal.
  [[nodiscard]] bool all_catch(int signal) const;
  /// Orders all to save and leave.
  void order_save();

  /// The record of a worker that has ended: reads its error file and the end of its stderr.
  [[nodiscard]] FailureRecord record(int local_rank, ExitStatus exit, bool after_stop) const;

  /// Workers that ended with code 0, the first kLeaversMax: others may have lost a peer by that.
  [[nodiscard]] std::vector<FailureRecord> leavers() const;

  /// Why this process of ours is being ended, for the record of the worker that it is (if it is
  /// one). What was noted first stays.
  void note_reason(pid_t pid, std::string reason);
  /// Notes of workers that run, yet cannot react: what stops them is told in their records.
  void note_standstills();
  [[nodiscard]] pid_t pid(int local_rank) const;

  /// What the workers told by now; the loss is that of the lowest rank that told one. The first
  /// step is that of the slowest, once all that run have made it.
  [[nodiscard]] TrainingProgress progress() const;

  /// Nobody writes any more: shows what is left of the teed files, then calls `done`.
  void finish_logs(std::function<void()> done);

  [[nodiscard]] const World& world() const { return world_; }

 private:
  struct Worker;
  [[nodiscard]] bool all_ended() const;
  Result<void> spawn(int local_rank, const std::vector<std::string>& inherited,
                     const OnExit& on_exit);
  void notify_all(int number);

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  const LogLayout& layout_;
  World world_;
  AttemptOutput output_;
  std::string node_;
  std::string network_interface_;
  WarmPool* warm_;
  std::chrono::steady_clock::time_point assigned_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<int> stacks_of_;  ///< local ranks of stack_targets()
};

}  // namespace ddprun
