// WarmPool: the warm workers of this node, one per local rank (--warm-workers). It prepares them
// while an attempt runs and hands them over when the next one starts; whatever goes wrong with one
// means a plain start, and a line at info level.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "agent/job_spec.h"
#include "agent/process/worker_process.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/world.h"

namespace spdlog {
class logger;
}

namespace ddprun {

class WarmPool {
 public:
  /// `spec` outlives the pool.
  WarmPool(boost::asio::io_context& io, const JobSpec& spec, std::shared_ptr<spdlog::logger> log);
  ~WarmPool();
  WarmPool(const WarmPool&) = delete;
  WarmPool& operator=(const WarmPool&) = delete;

  /// The workers of an attempt run: what is missing is prepared one after the other, once they had
  /// time to start themselves.
  void attempt_started(const World& world);
  /// The ready one of this local rank as the worker of `worker`; null: start one yourself.
  std::unique_ptr<WorkerProcess> take(int local_rank, const SpawnRequest& worker,
                                      std::function<void(ExitStatus)> on_exit);
  /// No attempt follows: all are killed, and none is prepared any more.
  void close();

  /// Those that live, or have not been reaped, and are nobody's leftovers.
  [[nodiscard]] std::vector<pid_t> pids() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
