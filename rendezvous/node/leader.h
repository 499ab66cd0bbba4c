// Leader: what a coordinator decides around the state machine of its job: which session is an
// agent's, whose death is certain, whose contact counts, when it may lead no more, and whom it
// calls. Pure: time and what happened come in, what to do goes out, in order. The shell
// (control/coordinator) has the sockets, the store and one timer; the simulation runs this very
// code.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "rendezvous/membership/membership.h"
#include "rendezvous/node/leader_lease.h"
#include "rendezvous/protocol/message.h"
#include "rendezvous/protocol/voter_addresses.h"

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
/// Leader::next_deadline() has come.
struct LeaderTimePassed {};

/// StrangerTurnedAway and StoreFailed are the state machine's (membership/event.h).
using LeaderInput =
    std::variant<SessionOpened, SessionTold, SessionEchoed, SessionHeard, SessionClosed,
                 CallAnswered, StrangerTurnedAway, StoreFailed, LeaderTimePassed>;

// --- What to do -----------------------------------------------------------------------------

/// To each of these.
struct SendMessage {
  std::vector<NodeId> nodes;
  message::Message message;
};
/// The last message of a session, which is closed in order then. SessionClosed follows.
struct SendAndClose {
  NodeId node{};
  message::Message message;
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
  std::optional<message::Follow> by;  ///< who leads instead, if that is known
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

// --- The decisions --------------------------------------------------------------------------

/// Sees each event of the state machine after it was applied.
class LeaderObserver {
 public:
  LeaderObserver() = default;
  LeaderObserver(const LeaderObserver&) = delete;
  LeaderObserver& operator=(const LeaderObserver&) = delete;
  virtual ~LeaderObserver() = default;
  /// `commands` are those that are really given.
  virtual void applied(Instant now, const Event& event, const std::vector<Command>& commands,
                       const Membership& membership) = 0;
};

class Leader : private LeaderLease::Quorum {
 public:
  /// Leads from `now` on.
  Leader(LeaderOptions options, Instant now);

  /// Takes what happened and returns what to do about it, in order. `now` never goes back. Total:
  /// what comes from a session that is closed is ignored.
  std::vector<LeaderAction> step(Instant now, LeaderInput input);
  /// When LeaderTimePassed is due; none: never.
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  /// What an answer to a beat says of the quorum (FollowerLease).
  [[nodiscard]] std::optional<LeaderLease::Age> advertised_age(Instant now) {
    return lease_.advertised_age(now);
  }
  /// May be null. It outlives this.
  void watch(LeaderObserver* observer) { observer_ = observer; }

  [[nodiscard]] const Membership& membership() const { return membership_; }
  [[nodiscard]] Term term() const { return membership_.leadership().in_use().term; }
  [[nodiscard]] bool is_member(NodeId node) const;
  [[nodiscard]] std::vector<NodeId> members() const;
  /// Nodes of this job that are not connected: they may be looking for this leader.

 private:
  struct Session {
    enum class Stage : std::uint8_t { ungreeted, member, leaving };
    Stage stage = Stage::ungreeted;
    bool local = false;
    bool leaves = false;  ///< it said so: when it closes, it is not dead
    VoterId voter{};
    Instant fresh = kNever;  ///< it is known to have followed at this time
    std::string address;
  };
  /// Calls are made at growing intervals.
  struct Calls {
    std::optional<Instant> due;  ///< none: this leader calls nobody
    std::chrono::milliseconds interval{};
  };

  void on(SessionOpened input);
  void on(SessionTold input);
  void on(const SessionEchoed& input);
  void on(const SessionHeard& input);
  void on(const SessionClosed& input);
  void on(const CallAnswered& input);
  void on(StrangerTurnedAway input) { apply(std::move(input)); }
  void on(StoreFailed input) { apply(std::move(input)); }
  void on(const LeaderTimePassed& input);

  void join(NodeId id, Session& session, NodeDescription node);
  void answer_peer(NodeId id, Session& session, const message::Message& question);
  void drop(NodeId id, const std::string& why);
  void lose(const SessionClosed& closed);
  [[nodiscard]] std::chrono::nanoseconds lease_left(std::chrono::nanoseconds silent_for) const;
  void apply(Event event);
  void apply_now(Event event);
  void give(Welcome order);
  void give(Reject order);
  void give(Replicate order);
  void give(TellStory order);
  void tell_voters_of(const message::VoterAddress& place);
  void give(OpenStore order);
  void give(AssignWorld order);
  void give(StopWorkers order);
  void give(Release order);
  void give(TellWaiting order);
  void give(WatchNode order);
  void give(const Disconnect& order);
  void give(const AskEnvironment& order);
  void give(TellEnvironments order);
  void give(TellIncident order);
  void give(FinishJob order);
  void send(std::vector<NodeId> nodes, message::Message message);
  bool keeps_lease(const std::optional<std::string>& lost);
  void step_down(const std::string& why, std::optional<message::Follow> by);
  void forget_absent();
  void call_others();
  [[nodiscard]] VoterId own_voter() const { return options_.membership.self; }
  [[nodiscard]] message::Follow call() const;
  [[nodiscard]] bool is_for_this(const message::Follow& call, bool begins) const;
  [[nodiscard]] message::JobOptions job_options() const;

  [[nodiscard]] bool needed() const override;
  [[nodiscard]] bool needed_later() const override;
  [[nodiscard]] Instant contact(Instant now) const override;
  [[nodiscard]] bool outdated() const override;

  LeaderOptions options_;
  Membership membership_;
  LeaderLease lease_;
  VoterAddresses addresses_;
  std::unordered_map<NodeId, Session> sessions_;  ///< looked up at each heartbeat
  bool voters_know_all_ = false;                  ///< where the newest node is
  LeaderObserver* observer_ = nullptr;
  Instant now_;
  std::vector<LeaderAction> actions_;
  std::deque<Event> events_;
  bool applying_ = false;
  bool deposed_ = false;
  bool needs_others_ = false;  ///< needed(), after the newest event
  Calls calls_;
};

}  // namespace ddprun
