// Events: all that can happen to a job, as the state machine is told it. Plain values; time comes
// beside the event. trace.h has their text form.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/hang_diagnosis.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/stop_order.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// Time on the coordinator's steady clock, from any fixed point. It never goes back.
using Instant = std::chrono::nanoseconds;

/// A node said hello. `node` was never used before.
struct NodeJoined {
  NodeId node{};
  NodeDescription description;
  std::string address = {};  ///< numeric, for people; empty for the coordinator's own node
};

/// A node was accepted that remembers a job, and is not here before it has said something more.
/// Until then, or until it is gone, a coordinator without any state must not begin that job a
/// second time.
struct NodeGreeted {
  NodeId node{};
  bool gone = false;
};

/// Somebody knocked whom the shell turned away before it was a node (another version, a program
/// that is not ours). Only people need to know.
struct StrangerTurnedAway {
  std::string address;
  std::string why;  ///< a clause
};

/// A connection from another agent's address, which has not said anything yet. Told while the host
/// of the endpoint is alone: people ask whether anybody reaches it.
struct CallerCame {
  std::string address;
};

/// The node of a WatchNode command has said something since: it is alive.
struct NodeHeard {
  NodeId node{};
};

/// The connection closed, broke, broke the rules, or fell silent.
struct NodeLost {
  NodeId node{};
  std::string why;  ///< a clause: "its connection closed", "it was silent for 3 s"
  /// How long nothing had been heard from it. Larger than zero only for a silence, where it dates
  /// the loss before the moment at which it was noticed.
  std::chrono::nanoseconds silent_for{};
  /// Its agent's process is certainly no more.
  bool died = false;
  /// For so long its agent may still follow, and run its workers.
  std::chrono::nanoseconds lease_left{};
};

/// All workers of the node have been spawned.
struct WorkersStarted {
  NodeId node{};
  AttemptNumber attempt{};
};

/// The first worker of the node that failed by itself.
struct WorkerFailed {
  NodeId node{};
  AttemptNumber attempt{};
  FailureRecord record;
};

/// All workers of the node exited 0.
struct WorkersFinished {
  NodeId node{};
  AttemptNumber attempt{};
  TrainingProgress progress;
};

/// No process of the attempt is left on the node.
struct WorkersStopped {
  NodeId node{};
  AttemptNumber attempt{};
  std::vector<FailureRecord> records;
  int records_dropped = 0;  ///< by the sender, beyond kIncidentRecordsMax
  TrainingProgress progress;
};

/// Workers of the node made no progress for its agent's --hang-timeout; or those of another did,
/// and this is the answer to the order to stop for that. None has been ended here yet.
struct WorkersHung {
  NodeId node{};
  AttemptNumber attempt{};
  std::vector<WorkerPosition> positions;  ///< of all workers of the node that run
  std::string why;                        ///< a clause: "rank 3 made no progress for 2 s"
};

/// What the workers of the node have told by now; comes while they run.
struct WorkersProgress {
  NodeId node{};
  AttemptNumber attempt{};
  TrainingProgress progress;
};

/// An agent was asked by a signal, by its deadline, or by a notice that its machine goes.
struct StopRequested {
  NodeId node{};
  int signal = 0;  ///< 0: its deadline, or a notice, has come
  StopWish wish = StopWish::end;
  std::string notice = {};  ///< what announced that the machine goes; empty: nothing has
};

/// A node cannot run any attempt.
struct NodeGaveUp {
  NodeId node{};
  std::string why;  ///< a sentence
};

/// The shell could not open the store of an attempt, so nobody was told of that attempt.
struct StoreFailed {
  AttemptNumber attempt{};
  std::string why;  ///< a sentence
};

/// A voter keeps the state of Replicate, and gave its word for the term of it.
struct StateAcknowledged {
  NodeId node{};
  ConfigurationNumber configuration{};
};

/// Answer to AskEnvironment.
struct EnvironmentTold {
  NodeId node{};
  NodeEnvironment environment;
};

/// The deadline that Membership::next_deadline named has come.
struct TimePassed {};

using Event = std::variant<NodeJoined, NodeGreeted, StrangerTurnedAway, CallerCame, NodeHeard,
                           NodeLost, WorkersStarted, WorkerFailed, WorkersFinished, WorkersStopped,
                           StopRequested, NodeGaveUp, StoreFailed, StateAcknowledged, TimePassed,
                           WorkersProgress, EnvironmentTold, WorkersHung>;

}  // namespace ddprun
