// CoordinatorClient: the agent's end of the control connection. It says hello, passes orders to
// the agent, carries reports, keeps the heartbeat in both directions, and tells the agent when the
// coordinator is gone, so that the agent can fence itself.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/control/channel.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/rendezvous_status.h"
#include "rendezvous/membership/world.h"
#include "rendezvous/protocol/message.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

/// How an agent lost its coordinator.
struct CoordinatorLost {
  Error why;
  std::string clause;  ///< of it: "its connection closed"
  /// When it was last known to be there: the newest of what it said and was answered.
  std::chrono::steady_clock::time_point last_contact;
  /// Its side closed without a word, as the death of its process does.
  bool closed = false;
};

/// What the coordinator orders and tells. Called on the loop, one at a time. An order for another
/// attempt than the newest is never passed on.
class CoordinatorOrders {
 public:
  CoordinatorOrders() = default;
  CoordinatorOrders(const CoordinatorOrders&) = delete;
  CoordinatorOrders& operator=(const CoordinatorOrders&) = delete;
  virtual ~CoordinatorOrders() = default;

  /// Start the workers of this world.
  virtual void assign(const message::Assigned& order) = 0;
  /// Stop the workers of this attempt; answer with workers_stopped (also when none is left). For a
  /// hang answer workers_hung too, and that first.
  virtual void stop(const message::Stop& order) = 0;
  /// The job is over; workers are stopped already. The connection closes after this.
  virtual void finish(const JobSummary& summary) = 0;
  /// What the job waits for, for people.
  virtual void waiting(const RendezvousStatus& table) = 0;
  /// The coordinator rejected this node (wrong job id, other options ...). Final.
  virtual void rejected(const Error& why) = 0;
  /// The connection closed, broke or fell silent. Final; not called after finish or rejected.
  virtual void lost(const CoordinatorLost& how) = 0;
  /// What only the next election needs. Accepted: the coordinator let this node in, in this term;
  /// it comes first, unless the client was made with the answer. For a voter Story, what has
  /// happened since, and MoreNodes, where nodes are that came since.
  virtual void told(const message::Message& /*news*/) {}
  /// This node votes: keep this, it replaces what came before, and no candidate that knows an older
  /// configuration is to be granted a vote from here on. False: this node gave its word to another
  /// coordinator.
  virtual bool voter_state(const message::VoterState& /*state*/) { return true; }
  /// ddpctl on another node asks this one to leave the job.
  virtual void leave_asked() {}
  /// Of CoordinatorClient::drain(): why that node cannot be asked; empty: it is.
  virtual void drain_answered(const std::string& /*why_not*/) {}
  /// What of this node is compared with others.
  [[nodiscard]] virtual NodeEnvironment environment() const { return {}; }
};

class CoordinatorClient {
 public:
  /// `connection` is a connected stream socket, hello not yet said unless there is an answer to it
  /// (join.h says it to remote coordinators, to tell a stranger on the port from a coordinator); it
  /// was said at `asked_at` then, and the coordinator counts its silence from there at the
  /// earliest. `orders` outlives this.
  static std::unique_ptr<CoordinatorClient> create(
      boost::asio::io_context& io, Channel connection, std::optional<message::Accepted> greeted,
      NodeDescription node, std::chrono::milliseconds heartbeat_timeout, CoordinatorOrders& orders,
      std::shared_ptr<spdlog::logger> log,
      std::chrono::steady_clock::time_point asked_at =
          std::chrono::steady_clock::time_point::max());
  ~CoordinatorClient();
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;

  /// This node's end of the connection, numeric: the address by which it reaches the others. Empty
  /// for the node that hosts the coordinator.
  [[nodiscard]] std::string local_address() const;
  /// The coordinator's end of the connection, numeric; empty where it is in this process.
  [[nodiscard]] std::string peer_address() const;

  /// This agent is about to follow another coordinator: no order of this one is passed on any more.
  void leave();
  /// All local workers of the attempt have been spawned.
  void workers_started(AttemptNumber attempt);
  /// The first worker of this node that failed by itself, at once; the rest come with
  /// workers_stopped.
  void worker_failed(AttemptNumber attempt, FailureRecord record);
  /// All local workers exited 0.
  void workers_finished(AttemptNumber attempt, TrainingProgress progress);
  /// What the workers have told by now.
  void workers_progress(AttemptNumber attempt, TrainingProgress progress);
  /// No process of the attempt is left on this node; all its records, also those sent before.
  void workers_stopped(AttemptNumber attempt, std::vector<FailureRecord> records,
                       TrainingProgress progress);
  /// Workers of this node make no progress, or it is told to stop for such; none has been ended
  /// yet. `why` is a clause.
  void workers_hung(AttemptNumber attempt, std::vector<WorkerPosition> positions, std::string why);
  /// This agent was asked to have the job end in order, everywhere, or to leave it. `signal` 0: its
  /// deadline has come, or a `notice` that its machine goes.
  void request_stop(int signal, StopWish wish, const std::string& notice = {});
  /// Another node is to leave the job: its name or number. drain_answered() comes once for each
  /// call, in their order, also where the coordinator is lost meanwhile.
  void drain(const std::string& node);
  /// Something keeps this node from running any attempt (program gone, log directory not
  /// writable): ends the job with this sentence as its reason.
  void give_up(const Error& why);

 private:
  struct Impl;
  explicit CoordinatorClient(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
