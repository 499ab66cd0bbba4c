// WarmWorker: one Python process that has imported what its program will import, and waits just
// before the program's first instruction (docs/warm-workers.md). It has a worker's session, ties to
// the agent and command line from the start; environment and output come when it becomes one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "agent/process/worker_process.h"
#include "rendezvous/base/result.h"

namespace ddprun {

class WarmWorker {
 public:
  enum class State : unsigned char {
    importing,
    hooked,  ///< only of a trial (`python -c`): the interpreter runs our code; it ends by itself
    ready,
    unfit,  ///< it said why, and ends by itself
    ended,  ///< killed, or crashed
  };
  /// Called on the loop at each change of state, not from within start() or become(). It may
  /// destroy the WarmWorker. `why` is a clause for a person.
  using OnChange = std::function<void(State, const std::string& why)>;

  /// `request` has the worker's path and argv, and the environment of warm_environment().
  static Result<std::unique_ptr<WarmWorker>> start(boost::asio::io_context& io,
                                                   SpawnRequest request, OnChange on_change);
  /// Kills a process that has not become a worker.
  ~WarmWorker();
  WarmWorker(const WarmWorker&) = delete;
  WarmWorker& operator=(const WarmWorker&) = delete;

  /// Once, when ready: the process goes on as the worker of `worker`, whose path is its own.
  /// An Error when its argv differs, or it does not answer: it has been killed then, and not one
  /// instruction of the program has run.
  Result<std::unique_ptr<WorkerProcess>> become(const SpawnRequest& worker,
                                                std::function<void(ExitStatus)> on_exit);

  [[nodiscard]] pid_t pid() const;
  [[nodiscard]] State state() const;

 private:
  struct Impl;

 public:
  /// For start() alone: nobody else can name Impl.
  explicit WarmWorker(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
