// Operations: what people and programs ask of a running agent: over its Unix socket (ddpctl: look,
// drain, save, stop, stacks), over TCP where --metrics-port asks for that (look, no more), and by
// the control port for a holder of the job's token (ddpctl --at: as over the socket).
// docs/operations.md lists the requests. It decides nothing: to drain, save or stop is what a
// signal asks for, too, and takes the same path.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/job_spec.h"
#include "agent/local_workers.h"
#include "agent/operations/job_snapshot.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/control/channel.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

struct OperationsHooks {
  std::function<JobSnapshot()> snapshot;
  /// LocalWorkers::output_tails
  std::function<std::vector<StreamTail>()> output;
  /// As if this signal had come.
  std::function<void(int signal)> ask;
  /// Follower::drain; drain_answered() is the answer.
  std::function<void(const std::string& node)> drain;
  /// LocalWorkers::take_stacks
  std::function<void(std::optional<int> rank, StacksTaken done)> stacks;
};

class Operations {
 public:
  Operations(boost::asio::io_context& io, OperationsHooks hooks,
             std::shared_ptr<spdlog::logger> log);
  ~Operations();
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  /// Opens both. A job does not end for want of the Unix socket: that is a warning. A port that was
  /// asked for and cannot be had is an Error.
  Result<void> open(const std::string& job_id, const std::optional<MetricsPlace>& metrics);
  /// The oldest unanswered OperationsHooks::drain: why not; empty: that node is asked.
  void drain_answered(const std::string& why_not);
  /// A connection from any machine, whose other end has shown the job's credentials: it may ask
  /// what the agent's own user may. `said` has been read from it already.
  void adopt(Channel connection, const std::string& said);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
