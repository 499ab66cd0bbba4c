// LocalWorkers: the workers of this node, attempt after attempt: carries out what
// process/worker_group.h decides, with an Attempt's processes, and reports it to the coordinator.
// Whether the job goes on is not its business (agent_state.h). Lives on the agent's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/attempt.h"
#include "agent/job_spec.h"
#include "agent/output/log_layout.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/world.h"
#include "rendezvous/protocol/message.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

class CoordinatorClient;

struct LocalWorkersHooks {
  /// To whom it reports; null: to nobody now.
  std::function<CoordinatorClient*()> coordinator;
  /// Something may have ended: ask any_running() and any_to_show(). Comes often, also for nothing.
  std::function<void()> settled;
  /// SIGKILL does not end a worker: this node is of no use any more (I-16).
  std::function<void(const Error&)> gave_up;
  /// What this node's workers have told, at the pace of progress_poller.h.
  std::function<void(const TrainingProgress&)> told;
};

/// What one worker was about when somebody asked.
struct WorkerStack {
  int rank = 0;
  pid_t pid = 0;
  std::string frames;      ///< the newest, of its main thread
  std::string file;        ///< where all threads are; empty: there are no files
  std::uint64_t from = 0;  ///< these begin there in the file
};
using StacksTaken = std::function<void(Result<std::vector<WorkerStack>>)>;

class LocalWorkers {
 public:
  /// `spec`, `layout` and the consoles outlive it. `node`: the host's name, for prefixes of lines.
  LocalWorkers(boost::asio::io_context& io, const JobSpec& spec, const LogLayout& layout,
               Consoles consoles, std::string node, LocalWorkersHooks hooks,
               std::shared_ptr<spdlog::logger> log);
  ~LocalWorkers();
  LocalWorkers(const LocalWorkers&) = delete;
  LocalWorkers& operator=(const LocalWorkers&) = delete;

  /// Makes the FIFO of --timer-file, if that is asked for; before the first attempt.
  Result<void> open_timers();

  /// Spawns the workers of `world`; none of an attempt before runs. They reach the other nodes'
  /// by the interface that has `own_address`; empty: there is no other node. When one cannot be
  /// spawned none is left, and the Error says why.
  Result<void> begin(const World& world, const std::string& own_address);
  /// An order of the coordinator.
  void obey(const message::Stop& order);
  /// Asks them to end, by this signal.
  void stop(int signal);
  /// So too, and kills those that are left so soon that the coordinator's lease still runs.
  void fence();
  void kill();
  /// No attempt comes any more: workers that are kept warm for one end.
  void forget_warm();
  /// Lets go of the attempt, none of whose workers runs; the rest of its logs is shown meanwhile.
  void retire();

  /// How those of the newest attempt are; empty before the first, and after retire().
  [[nodiscard]] std::vector<WorkerSnapshot> snapshots() const;
  /// What they wrote last.
  [[nodiscard]] std::vector<StreamTail> output_tails() const;
  /// Its world; none then.
  [[nodiscard]] const World* world() const;
  /// Takes the stacks of those that run (`rank`: of that one), which go on. `done` is called on the
  /// loop, within kStackPatience; with an Error where there is nothing to take, or the attempt ends
  /// meanwhile.
  void take_stacks(std::optional<int> rank, StacksTaken done);

  [[nodiscard]] bool any_running() const;
  /// A worker has left for a signal that it alone got: the job is to save, and to end.
  [[nodiscard]] bool left_alone() const;
  /// Output of workers that have ended waits to be shown; false before retire().
  [[nodiscard]] bool any_to_show() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
