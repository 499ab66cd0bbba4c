// Messages: what agent and coordinator say to each other. Plain values; message_codec.h puts them
// into bytes, docs/control-protocol.md describes these.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/rendezvous_status.h"
#include "rendezvous/membership/stop_order.h"
#include "rendezvous/membership/voter.h"
#include "rendezvous/membership/world.h"

namespace ddprun::message {

using ddprun::VoterAddress;

// From the agent.

/// First message of an agent.
struct Hello {
  NodeDescription node;
};
struct Started {
  AttemptNumber attempt{};
};
struct Failed {
  AttemptNumber attempt{};
  FailureRecord record;
};
struct Finished {
  AttemptNumber attempt{};
  TrainingProgress progress;
};
struct Stopped {
  AttemptNumber attempt{};
  std::vector<FailureRecord> records;
  int records_dropped = 0;
  TrainingProgress progress;
};
struct StopRequest {
  int signal = 0;  ///< 0: its deadline, or a notice, has come
  StopWish wish = StopWish::end;
  std::string notice = {};  ///< what announced that the machine goes; empty: nothing has
};
struct GiveUp {
  std::string why;
};

// From the coordinator.

/// Only the nodes of an environment that others differ from, and one of each other, are asked.
struct AskEnvironment {};

/// Answer to Hello, or:
struct Accepted {
  Term term{};
  VoterId coordinator{};
  std::int64_t stamp = 0;  ///< see Beat
  JobInstance instance{};
  HostIdentity host = {};          ///< where the coordinator runs
  bool at_first_endpoint = false;  ///< its process listens at the job's first endpoint
};
/// Final. Its layout never changes, so that nodes of different versions can say so to each other.
/// Comes after Accepted when the node waited for a rank that stays taken.
struct Rejected {
  std::string why;
  std::string todo;
};
struct Assigned {
  World world;
  ConfigurationNumber configuration{};
  Term term{};
  int others = 0;  ///< nodes of the world, without the coordinator's own
  JobInstance instance{};
  /// How long ago the job began, as its accounts count (Accounts::wall). With it a member knows
  /// how old accounts are that it reads somewhere: no two hosts need one clock.
  std::chrono::nanoseconds job_age{};
};
struct Stop {
  AttemptNumber attempt{};
  std::string reason;
  StopHow how = StopHow::now;  ///< hang: answer Hung first
  int signal = 0;              ///< that asked for the end of the job; of --deadline: 0
};
struct Finish {
  JobSummary summary;
};
/// What the job waits for, for people; at the coordinator's pace.
struct Waiting {
  RendezvousStatus table;
};

/// For a voter: all that it needs to go on without this coordinator. Bounded by the frame. A node
/// that is bound to another coordinator of this term or a later one does not acknowledge it.
struct VoterState {
  int place = 0;  ///< in the order in which the voters stand, from 0
  ReplicatedState replicated;
  /// Of the job, those that vote among them, at most kNodesInMessageMax; MoreNodes has the others.
  std::vector<VoterAddress> nodes;
  std::int64_t stamp = 0;  ///< see Beat
  JobSummary so_far;
  // The job's terms, for a witness that was not told them.
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  bool require_same_env = false;
  /// The coordinator's: no lease of the job is longer, so its successor waits for this fence.
  std::chrono::milliseconds heartbeat_timeout{3'000};
};
/// For a voter: what has happened since.
struct Story {
  AttemptNumber attempt{};
  JobSummary so_far;
};
/// For a voter: where nodes are that its VoterState had no room for, or that came after it.
struct MoreNodes {
  std::vector<VoterAddress> nodes;
};
/// The coordinator closes this connection on purpose: it is not dead, and others may come soon.
struct Farewell {
  std::string why;
};

// From the agent.

/// It takes this coordinator for lost and is about to close: it lives, and may vote for another.
struct Leaving {};
/// Of a VoterState: it is kept, and no candidate that knows less is granted a vote from here on.
struct StateKept {
  ConfigurationNumber configuration{};
  std::int64_t stamp = 0;  ///< of the VoterState
};
/// Answer to AskEnvironment.
struct TellEnvironment {
  NodeEnvironment environment;
};

/// Workers of this node make no progress; a Stop is the answer. And the other way round: to a Stop
/// for a hang, at once.
struct Hung {
  AttemptNumber attempt{};
  std::vector<WorkerPosition> positions;
  std::string why;  ///< a clause
};

// From the coordinator.

/// For people at this node: a failure, when it happens, and what follows.
struct TellIncident {
  std::string text;  ///< one line
};

/// For a node that is in no world: others were handed this one.
struct TellWorld {
  AttemptNumber attempt{};
  ConfigurationNumber configuration{};
  Term term{};
  JobInstance instance{};
};

// Between agents, each on a connection of its own.

/// A standby asks for a vote; VoteAnswer comes back.
struct AskVote {
  std::string job_id;
  VoterId voter{};  ///< who is asked; another life of its agent does not answer for it
  VoteRequest request;
};
struct VoteAnswer {
  Vote vote;
};
/// What all nodes of a job are given alike: tells apart jobs that have one id.
struct JobOptions {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  bool require_same_env = false;

  friend bool operator==(const JobOptions&, const JobOptions&) = default;
};
/// A coordinator of this term leads, and is to be followed.
struct Follow {
  std::string job_id;
  Term term{};
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  /// Sent to an endpoint of the job, for an agent that has no world yet. None: sent to a voter.
  std::optional<JobOptions> to_endpoint = {};
  JobInstance instance{};
  VoterId voter{};  ///< who is called, where a voter is; another life of its agent is not
};
/// Answer of an agent that is no coordinator to a Hello: who is. Also to a Follow, and of a
/// coordinator to a node of another job.
struct Moved {
  Term term{};
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  VoterId from{};          ///< who answers
  JobInstance instance{};  ///< of its job, where it remembers or leads one
};

// From the agent.

/// What its workers have told by now, when there is news.
struct Progress {
  AttemptNumber attempt{};
  TrainingProgress progress;
};

/// ddpctl at this node asks that another one leaves the job; DrainAnswer comes back.
struct DrainNode {
  std::string node;  ///< its name or its number, as a person wrote it
};

// From the coordinator.

/// Answers come in the order of their questions.
struct DrainAnswer {
  std::string why_not;  ///< a sentence; empty: that node is asked
};
/// The same as SIGUSR2 to this agent: it asks for a node's leave by itself.
struct AskToLeave {};

// Both ways.

/// The agent sends them as its lease says (node/follower_lease.h), the coordinator answers each
/// at once. `timeout` is the sender's: it takes a peer for lost after this long without a byte.
struct Beat {
  std::chrono::milliseconds timeout{};
  /// The coordinator's time of sending, in its own ticks; from the agent: the newest that came.
  std::int64_t stamp = 0;
  /// From the coordinator, where it needs the others to go on: how long ago it is known to have
  /// been in touch with a quorum of them.
  std::optional<std::chrono::nanoseconds> quorum_age = {};
};

// From the agent.

/// The stamp of the Beat that came just now, where that has a quorum_age.
struct Echo {
  std::int64_t stamp = 0;
};

using Message = std::variant<Hello, Started, Failed, Finished, Stopped, StopRequest, GiveUp,
                             Accepted, Rejected, Assigned, Stop, Finish, Waiting, Beat, VoterState,
                             Story, Farewell, StateKept, AskVote, VoteAnswer, Follow, Moved,
                             Leaving, Progress, AskEnvironment, TellEnvironment, Hung, TellIncident,
                             Echo, MoreNodes, DrainNode, DrainAnswer, AskToLeave, TellWorld>;

}  // namespace ddprun::message
