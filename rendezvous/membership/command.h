// Commands: all that the state machine can order. The shell carries them out in the order given.
// Plain values; trace.h has their text form.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/rendezvous_status.h"
#include "rendezvous/membership/stop_order.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// Never null. Summaries and tables are far larger than any other command, and a world of ten
/// thousand nodes is as many commands: each has the size of the largest kind.
using SharedSummary = std::shared_ptr<const JobSummary>;

/// The node is part of the job (as a member or a spare). First command for any node.
struct Welcome {
  NodeId node{};
  Term term{};
  VoterId coordinator{};
  JobInstance instance{};
};

/// The node is none of the job's, for good; nothing follows for it. Also after a Welcome, when it
/// waited for a --node-rank whose holder turns out to be alive.
struct Reject {
  NodeId node{};
  std::string why;   ///< a clause without a full stop
  std::string todo;  ///< what the person at that node can do, may be empty
};

/// Give these voters (in the order in which they stand) what a successor has to know, and answer
/// StateAcknowledged for each.
struct Replicate {
  std::vector<NodeId> voters;
  ReplicatedState replicated;
  SharedSummary so_far;  ///< with the verdict where the job has ended; else none yet
};

/// Tell the voters of Replicate what has happened since; nobody answers.
struct TellStory {
  std::vector<NodeId> voters;
  AttemptNumber attempt{};  ///< the newest
  SharedSummary so_far;     ///< no verdict yet
};

/// Open the fresh store of the attempt, closing the one before. Assignments of the attempt follow;
/// if it fails they are dropped, and StoreFailed is the next event.
struct OpenStore {
  AttemptNumber attempt{};
};

/// Start the workers of this world (the shell adds the store's address and port).
struct AssignWorld {
  NodeId node{};
  World world;
  ConfigurationNumber configuration{};
  Term term{};
  int others = 0;  ///< nodes of the world, without the coordinator's own
  JobInstance instance{};
  std::chrono::nanoseconds job_age{};  ///< since the job began, as the accounts count
};

/// For nodes that are in no world: others were handed this one. Each of them is told of every
/// world, so that a coordinator that begins without any state hears of it from whoever comes.
struct TellWorld {
  std::vector<NodeId> nodes;
  AttemptNumber attempt{};
  ConfigurationNumber configuration{};
  Term term{};
  JobInstance instance{};
};

/// Stop the workers of the attempt and answer WorkersStopped. May come again, as `now`, when what
/// `save` or `preempt` asks for has become impossible.
struct StopWorkers {
  NodeId node{};
  AttemptNumber attempt{};
  std::string reason;
  StopHow how = StopHow::now;
  int signal = 0;  ///< of preempt: what the agent was sent; 0: nothing in particular
};

/// The node has left in order: it is told so, and may end.
struct Release {
  NodeId node{};
  SharedSummary so_far;
};

/// For the people at these nodes: what the job waits for.
struct TellWaiting {
  std::vector<NodeId> nodes;
  std::shared_ptr<const RendezvousStatus> table;  ///< never null
};

/// Say NodeHeard the next time that this node says anything. (NodeLost needs no asking.)
struct WatchNode {
  NodeId node{};
};

/// Close the connection of this node, which has come back on another one; NodeLost follows. Bytes
/// that were still on their way on the old one prove nothing.
struct Disconnect {
  NodeId node{};
};

/// Have the node say EnvironmentTold.
struct AskEnvironment {
  NodeId node{};
};

/// For the people at the coordinator's node: in what nodes differ.
struct TellEnvironments {
  std::string text;  ///< several lines
};

/// For the people at these nodes: a failure, and what follows (incident_line.h).
struct TellIncident {
  std::vector<NodeId> nodes;
  std::string text;  ///< one line
};

/// The job is over: every connected node is sent the summary. Comes once.
struct FinishJob {
  SharedSummary summary;
};

using Command = std::variant<Welcome, Reject, WatchNode, Replicate, TellStory, OpenStore,
                             AssignWorld, StopWorkers, TellWaiting, FinishJob, Release,
                             AskEnvironment, TellEnvironments, TellIncident, Disconnect, TellWorld>;
static_assert(sizeof(Command) <= 160, "share what is large: SharedSummary");

}  // namespace ddprun
