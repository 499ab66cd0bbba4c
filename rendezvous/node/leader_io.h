// What a leader is given and what it orders: its options, what happened, what to do. Plain values
// (leader.h).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/membership.h"
#include "rendezvous/node/service_question.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

struct LeaderOptions {
  MembershipOptions membership;
  std::chrono::milliseconds heartbeat_timeout{3'000};
  /// Whether the job outlives its coordinator: then it watches its quorum, and gives way to others.
  bool failover = false;
  /// Where this leader is reached.
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  HostIdentity host = {};
  bool at_first_endpoint = false;  ///< its process listens at the job's first endpoint
  /// Of a successor: where the nodes of the job that it took over are.
  std::vector<message::VoterAddress> nodes = {};
  /// Of the consensus service that is the one voter, for people: "etcd". Empty: nodes vote.
  std::string service = {};
};

// --- What happened --------------------------------------------------------------------------

/// A connection was made. `node` was never used before.
struct SessionOpened {
  NodeId node{};
  bool local = false;   ///< of the agent that hosts this coordinator
  std::string address;  ///< of the peer, numeric
};
struct SessionTold {
  NodeId node{};
  message::Message message;  ///< no Beat and no Echo
};
/// The peer had what was sent at this time, by this leader's clock.
struct SessionEchoed {
  NodeId node{};
  Instant sent{};
};
/// After WatchNode.
struct SessionHeard {
  NodeId node{};
};
struct SessionClosed {
  NodeId node{};
  std::string why;                        ///< a clause: "its connection closed"
  std::chrono::nanoseconds silent_for{};  ///< larger than zero: it fell silent
  bool by_peer = false;  ///< its kernel closed it in order, as it does when the process dies
  /// Its kernel reset it: the process died with bytes unread, or it gave the connection up.
  bool by_reset = false;
};
/// An agent that was called, or a coordinator at an endpoint, answered that it knows of this term.
struct CallAnswered {
  message::VoterAddress from;
  Term term{};
  JobInstance instance{};
};
/// The consensus service lets this process lead no more.
struct LedByAnother {
  std::optional<LeaderRecord> other;  ///< none: it knows of nobody
};
/// Leader::next_deadline() has come.
struct LeaderTimePassed {};

/// StrangerTurnedAway and StoreFailed are the state machine's (membership/event.h).
using LeaderInput =
    std::variant<SessionOpened, SessionTold, SessionEchoed, SessionHeard, SessionClosed,
                 CallAnswered, LedByAnother, StrangerTurnedAway, StoreFailed, LeaderTimePassed>;

// --- What to do -----------------------------------------------------------------------------

/// Never null. There may be as many actions as nodes, and each has the size of the largest kind.
using SharedMessage = std::shared_ptr<const message::Message>;

/// To each of these.
struct SendMessage {
  std::vector<NodeId> nodes;
  SharedMessage message;
};
/// The last message of a session, which is closed in order then. SessionClosed follows.
struct SendAndClose {
  NodeId node{};
  SharedMessage message;
};
/// Close the session at once; no SessionClosed follows.
struct DropSession {
  NodeId node{};
};
/// SessionHeard, the next time that the peer says anything.
struct WatchSession {
  NodeId node{};
};
/// The job is over, and every member has been sent the summary.
struct EndJob {};
/// For the people at this node.
struct WarnPeople {
  std::string text;
};
/// Lead no more. Comes once.
struct StepDown {
  std::string why;
  std::shared_ptr<const message::Follow> by;  ///< who leads instead, if that is known
  SharedSummary so_far;  ///< accounts of the job until now: nobody may have stored the newest
};
/// Call these voters, but not one whose call is still under way. CallAnswered is for each that
/// answers with a Moved; what another agent answers counts for nothing.
struct CallVoters {
  struct Call {
    message::VoterAddress to;
    message::Follow call;
  };
  std::vector<Call> calls;
};
/// Call all endpoints of the job at which this agent does not listen. CallAnswered is for each
/// Moved.
struct CallEndpoints {
  message::Follow call;
};

/// OpenStore and AssignWorld are the state machine's (membership/command.h): the shell has the
/// store, and knows by which address each node reaches it.
using LeaderAction =
    std::variant<SendMessage, SendAndClose, DropSession, WatchSession, OpenStore, AssignWorld,
                 EndJob, WarnPeople, StepDown, CallVoters, CallEndpoints>;
static_assert(sizeof(LeaderAction) <= 160, "share what is large: SharedMessage");

}  // namespace ddprun
