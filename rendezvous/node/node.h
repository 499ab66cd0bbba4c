// Node: what one agent decides about the coordinator of its job, term by term. It searches for it,
// follows it, votes, stands for election and leads. Pure: time and what happened come in, what to
// do goes out, in order. The shell (control/follower) has the sockets, one timer and the
// coordinator; the simulation runs this very code. docs/failover.md draws it.
//
//   joining   --accepted--> following --lost--> fencing --workers gone--> searching
//   joining   --hosts-----> leading --deposed-^
//   searching --accepted--> following
//   searching --elected---> leading
//
// An agent without failover takes no part in elections: for it the loss of its coordinator is the
// end.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/election.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/takeover_state.h"
#include "rendezvous/node/dead_leader.h"
#include "rendezvous/node/follower_state.h"
#include "rendezvous/node/join_wait.h"
#include "rendezvous/node/unreached_leader.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

struct NodeOptions {
  /// The first is where a new job begins; at the others, agents know where it is.
  std::vector<Endpoint> endpoints;
  /// What this agent says in its hello; Node fills in its promise and its past.
  NodeDescription node;
  std::optional<bool> is_host;  ///< see SearchRequest
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds heartbeat_timeout{3'000};
  bool failover = false;
  /// Who leads is decided by a consensus service: no node votes, and none is sought at endpoints.
  bool by_service = false;
};

// --- What happened --------------------------------------------------------------------------

/// The agent listens for others, and begins to search.
struct NodeStarted {
  VoterId voter{};
  std::vector<std::string> addresses;  ///< numeric, of this machine
  std::uint16_t port = 0;
};
/// The search has bound the job's first endpoint: the job begins here.
struct EndpointBound {
  std::uint16_t port = 0;
  JobInstance instance{};  ///< drawn at random; of the job, unless it began before
};
/// A coordinator accepted this node.
struct HelloAccepted {
  message::Accepted accepted;
  std::string leader;        ///< where it is: numeric address and port
  Instant asked_at{};        ///< when the hello went
  bool at_endpoint = false;  ///< at the job's first endpoint, and not by the word of another
};
struct SearchFailed {
  Error why;
  bool rejected = false;  ///< by a coordinator: another try would not change it
};
/// The coordinator that this node follows, or its own, said so.
struct ToldByLeader {
  message::Message order;
};
struct LeaderLost {
  Error why;
  std::string clause;      ///< of it: "its connection closed"
  Instant last_contact{};  ///< of the newest that it said and was answered
  bool saw_close = false;  ///< its side closed without a word, as its process' death does
};
/// No worker lives here any more; after FenceWorkers.
struct WorkersGone {};
/// Its user wants this node to leave the job.
struct LeaveWished {};
/// The coordinator in this agent is to lead no more.
struct LeaderDeposed {
  std::string why;
  std::shared_ptr<const message::Follow> by = {};
  SharedSummary so_far = {};  ///< the accounts of the job until now
};
/// Another agent asks, on a connection of its own: Hello or AskVote. AnswerPeer follows, or nothing
/// where the question is of another job.
struct AskedByPeer {
  message::Message question;
  /// Who asks is a process of this machine, at the job's first endpoint: without this node it could
  /// listen there itself.
  bool from_here = false;
};
/// A leader called this agent.
struct CalledByLeader {
  message::Follow call;
};
struct VoteReceived {
  VoterId from{};
  Vote vote;
};
/// A voter was asked for its vote. It follows a coordinator, or is one, and said where that is.
struct LeaderNamed {
  message::Moved leader;
};
/// The process of that voter is no more.
struct VoterGone {
  VoterId voter{};
};
/// The consensus service did not answer, or refused; none: it does by now. AskService goes on.
struct ServiceTrouble {
  std::optional<Error> why{};
};
/// The consensus service lets this node lead, after AskService. AskService says nothing more.
struct Appointed {
  Term term{};
  JobInstance instance{};  ///< of a new job
  /// As the leader before committed it, with what it committed since; none: a new job.
  std::optional<message::VoterState> state;
  /// The leader before is known to be dead, but its lease is not over: workers may live still.
  bool before_its_lease_ended = false;
};
/// Node::next_deadline() has come.
struct NodeTimePassed {};

using NodeInput =
    std::variant<NodeStarted, EndpointBound, HelloAccepted, SearchFailed, ToldByLeader, LeaderLost,
                 WorkersGone, LeaveWished, LeaderDeposed, AskedByPeer, CalledByLeader, VoteReceived,
                 LeaderNamed, VoterGone, ServiceTrouble, Appointed, NodeTimePassed>;

// --- What to do -----------------------------------------------------------------------------

/// Look for the coordinator there; EndpointBound, HelloAccepted or SearchFailed follows. Replaces
/// the search that is under way.
struct SearchLeader {
  std::vector<Endpoint> places;
  std::optional<bool> is_host;
  std::chrono::milliseconds timeout{};
  bool by_endpoint = true;  ///< these are the user's words, not another agent's
};
struct StopSearch {};
/// Ask the consensus service again and again who leads, until CalledByLeader, or try to lead:
/// Appointed. Ends with StopSearch.
struct AskService {
  std::optional<DeadLeader> dead{};  ///< the one that was followed: its process' kernel said so
};
/// The connection of HelloAccepted is the one to the coordinator.
struct FollowLeader {};
/// Tell the coordinator that this node keeps the state that it sent: it will need the node often.
struct AcknowledgeState {
  message::StateKept acknowledged;
};
/// Say Leaving; obey nothing more; keep the connection open until CloseConnection, so that the
/// coordinator starts no others before this node's workers are gone.
struct LeaveLeader {};
struct CloseConnection {};
/// Stop all workers within a tenth of the heartbeat timeout; WorkersGone is the answer.
struct FenceWorkers {
  Error why;
};
struct AnswerPeer {
  message::Message answer;
};
struct AskVotes {
  VoteRequest request;
  std::vector<message::VoterAddress> voters;
};
/// No vote that is still to come counts.
struct StopAsking {};
/// Be the coordinator: at the endpoint that was bound, or (with a takeover) where this agent
/// listens for others.
struct BeginLeading {
  struct Takeover {
    message::VoterState known;
    Term term{};
    TakeoverState state;
    std::vector<VoterId> votes;  ///< that made it the leader
  };
  std::optional<Takeover> takeover;
  bool at_bound_endpoint = false;     ///< it was just bound; else this agent listens already
  JobInstance instance = {};          ///< without a takeover
  Term term{1};                       ///< without a takeover
  std::chrono::nanoseconds waited{};  ///< by a service: of the join timeout so much is over
};
struct StopLeading {
  std::string why;
};
/// The job goes on elsewhere, but people were told of the first endpoint. Only where that is this
/// machine, and once nobody else listens there.
struct ListenAtFirstEndpoint {};
/// Another process of this machine is to listen there.
struct LeaveFirstEndpoint {};
/// This node takes no part any more.
struct GiveUp {
  Error why;
};
struct LogLine {
  bool warning = false;
  std::string text;
};

using NodeAction =
    std::variant<SearchLeader, StopSearch, AskService, FollowLeader, AcknowledgeState, LeaveLeader,
                 CloseConnection, FenceWorkers, AnswerPeer, AskVotes, StopAsking, BeginLeading,
                 StopLeading, ListenAtFirstEndpoint, LeaveFirstEndpoint, GiveUp, LogLine>;

// --- The decisions --------------------------------------------------------------------------

class Node {
 public:
  enum class State : std::uint8_t { joining, following, leading, fencing, searching, over };

  explicit Node(NodeOptions options);

  /// Takes what happened and returns what to do about it, in order. `now` never goes back. Total:
  /// what comes too late for the state is ignored.
  std::vector<NodeAction> step(Instant now, NodeInput input);
  /// When NodeTimePassed is due; none: never.
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  /// It searches no more and stands for nothing. (One that leads or follows goes on with that.)
  void stop_searching();

  [[nodiscard]] State state() const { return state_; }
  /// What it says of itself now.
  [[nodiscard]] const NodeDescription& description() const { return node_; }
  /// What its coordinators have told it.
  [[nodiscard]] const FollowerState& known() const { return known_; }
  /// Where the newest that it followed is, numeric; empty: in this agent, or none yet.
  [[nodiscard]] const std::string& leader_address() const { return leader_; }
  /// The answer to the call of a leader, whatever comes of it.
  [[nodiscard]] message::Moved answer_to_call() const;
  [[nodiscard]] const std::optional<Election>& election() const { return election_; }

 private:
  void on(NodeStarted input);
  void on(const EndpointBound& input);
  void on(const HelloAccepted& input);
  void on(const SearchFailed& input);
  void on(const ToldByLeader& input);
  void on(const LeaderLost& input);
  void on(const WorkersGone& input);
  void on(const LeaveWished& input);
  void on(const LeaderDeposed& input);
  void on(const AskedByPeer& input);
  void on(const CalledByLeader& input);
  void on(const VoteReceived& input);
  void on(const LeaderNamed& input);
  void on(const VoterGone& input);
  void on(const ServiceTrouble& input) { unreached_.service(input.why); }
  void on(Appointed input);
  void on(const NodeTimePassed& input);

  void told(const message::VoterState& order);
  void told(const message::Waiting& order);
  template <class Order>
  void told(const Order& order) {
    // Other messages order nothing that an agent decides by.
    if constexpr (requires { known_.told(order, now_); }) {
      known_.told(order, now_);
    }
  }

  void search();
  void search_at(std::vector<Endpoint> places, std::optional<bool> is_host,
                 std::chrono::milliseconds timeout, bool by_endpoint);
  void settle();
  void fence(const Error& why);
  void begin_election();
  void run_election();
  void ask_all();
  void take_over();
  void lead(BeginLeading how);
  void give_up(const Error& why);

  NodeOptions options_;
  NodeDescription node_;
  State state_ = State::joining;
  Instant now_{};
  std::vector<NodeAction> actions_;
  // Of the search.
  JoinWait wait_;
  std::optional<Instant> search_again_at_;
  std::optional<message::Follow> called_;
  Instant named_again_at_{};          ///< before, no leader that a voter names is searched for
  std::optional<JobInstance> begun_;  ///< by this node, which has bound the job's first endpoint
  /// Where it has no vote: to begin at the first endpoint.
  struct Anew {
    Instant not_before{};
    bool is_tried = false;  ///< by the search that is under way
  } anew_;
  // Of the coordinator that it follows.
  FollowerState known_;
  std::string leader_;  ///< where it is, numeric
  // Of the newest loss.
  struct Loss {
    Instant contact{};
    Instant at{};  ///< as far as is known: the close that was seen, else the contact
    bool saw_close = false;
  } loss_;
  std::optional<Error> lost_why_;
  UnreachedLeader unreached_;  ///< by way of a service
  std::string lost_clause_;
  std::optional<Election> election_;
  bool leaves_ = false;  ///< its user wants that
};

}  // namespace ddprun
