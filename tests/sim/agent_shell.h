// AgentShell: one life of an agent in the simulation. It does for Node what control/follower does:
// connections, calls and timers, on the simulated network. What it decides is Node's; its workers
// are Workers'.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/node/follower_lease.h"
#include "rendezvous/node/node.h"
#include "tests/sim/leader_shell.h"
#include "tests/sim/network.h"
#include "tests/sim/search_shell.h"
#include "tests/sim/service_client.h"
#include "tests/sim/service_search_shell.h"
#include "tests/sim/workers.h"

namespace ddprun::sim {

class Machine;

class AgentShell {
 public:
  explicit AgentShell(Machine& machine);
  ~AgentShell();
  AgentShell(const AgentShell&) = delete;
  AgentShell& operator=(const AgentShell&) = delete;

  void start();
  /// Its process ends; the machine's kernel lives on, or not.
  void end(bool kernel_lives);
  void on_message(ConnectionId connection, Side side, const Message& message);
  /// What it answers another agent, which asks on a connection of its own.
  std::optional<message::Message> answer(const message::Message& question);
  [[nodiscard]] bool listens_at(int port) const;

  [[nodiscard]] bool leads() const { return leader_ != nullptr; }
  [[nodiscard]] std::optional<Term> leading_term() const;
  [[nodiscard]] bool is_over() const { return over_; }
  /// It leads, and waits for nodes.
  [[nodiscard]] bool gathers() const;
  /// It was part of a world, or stores the state of one as a voter.
  /// It was in a world, or is a voter. A spare that was told of a world is known to its leader
  /// alone.
  [[nodiscard]] bool is_known_to_voters() const {
    return node_ && node_->description().past &&
           (node_->description().past->group_rank || node_->description().copy);
  }
  /// Whose coordinator it follows, or its own machine; -1: it has none.
  [[nodiscard]] int leader_machine() const;
  [[nodiscard]] VoterId voter_id() const { return voter_; }
  [[nodiscard]] const Node& node() const { return *node_; }
  /// Null where it does not search.
  [[nodiscard]] const LeaderSearch* search() const {
    return search_ ? &search_->decides() : nullptr;
  }
  /// Its coordinator; none where it is no coordinator.
  [[nodiscard]] const Leader* leader() const { return leader_ ? &leader_->leader() : nullptr; }
  /// Of its newest connection to a coordinator.
  [[nodiscard]] const std::optional<FollowerLease>& lease() const { return lease_; }
  Workers& workers() { return workers_; }
  /// Somebody sends it a signal.
  void signal(int number, StopWish wish);

  // Of its leader.

  void deposed(const StepDown& order);
  void on_call_answered(const CallAnswered& answered);

  // Of its search.

  void on_bound(std::uint16_t port);
  void on_accepted(ConnectionId connection, const HelloAccepted& how);
  void on_search_failed(const SearchFailed& how);

  // Of workers.

  /// To the coordinator.
  void say(const Said& said);
  template <class Kind>
  void say(Kind message) {
    say(std::make_shared<const message::Message>(std::move(message)));
  }
  /// After Workers::fence().
  void workers_gone();

 private:
  /// The heartbeat timeout that this agent was given.
  [[nodiscard]] Duration timeout() const;
  void step(NodeInput input);
  bool told_by_service(NodeInput input);
  void arm();
  void carry_out(SearchLeader order);
  void carry_out(const StopSearch& order);
  void carry_out(const AskService& order);
  void carry_out(const FollowLeader& order);
  void carry_out(const AcknowledgeState& order);
  void carry_out(const LeaveLeader& order);
  void carry_out(const CloseConnection& order);
  void carry_out(const FenceWorkers& order);
  void carry_out(AnswerPeer order);
  void carry_out(const AskVotes& order);
  void carry_out(const StopAsking& order);
  void carry_out(BeginLeading order);
  void carry_out(const StopLeading& order);
  void carry_out(const ListenAtFirstEndpoint& order);
  void carry_out(const LeaveFirstEndpoint& /*order*/) { door_ = false; }
  void carry_out(const GiveUp& order);
  void carry_out(const LogLine& order);
  // Following.
  void follow(ConnectionId connection, bool local, Instant asked_at, Instant stamp = {});
  void obey(const message::Message& order);
  void lose(const std::string& why, bool closed);
  void check_lease();
  void arm_lease();
  void be_over();
  /// On the machine's clock, as long as this life lasts.
  template <class Action>
  void later(Duration delay, Action action);

  Machine& machine_;
  Workers workers_;
  VoterId voter_{};
  bool over_ = false;
  std::unique_ptr<Node> node_;
  std::vector<NodeInput> inputs_;
  bool stepping_ = false;
  std::optional<Instant> armed_;
  // Null: nodes vote.
  std::unique_ptr<ServiceClient> service_;
  std::unique_ptr<ServiceSearchShell> service_search_;
  std::unique_ptr<LeaderShell> leader_;
  std::optional<message::Message> said_;
  // Where it listens.
  int gate_ = 0;
  bool gate_is_endpoint_ = false;
  bool door_ = false;  ///< at the first endpoint, too
  // Searching, and asking for votes: answers to earlier questions come too late.
  std::unique_ptr<SearchShell> search_;
  std::uint64_t elections_ = 0;
  std::optional<ConnectionId> accepted_;  ///< for FollowLeader
  Duration accepted_at_{};
  std::optional<message::Accepted> greeting_;
  // Following.
  std::optional<ConnectionId> connection_;
  bool held_ = false;  ///< the connection is, and says nothing more
  std::optional<AttemptNumber> newest_;
  std::optional<FollowerLease> lease_;
  std::uint64_t lease_armed_ = 0;  ///< counts changes of its timer
};

}  // namespace ddprun::sim
