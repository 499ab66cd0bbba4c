// LeaderShell: does for Leader in the simulation what control/coordinator does: sessions on
// simulated connections, silence, one timer. It shows the observer what Leader decides.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "rendezvous/node/leader.h"
#include "tests/sim/network.h"
#include "tests/sim/observer.h"
#include "tests/sim/service_voter_shell.h"

namespace ddprun::sim {

class AgentShell;
class Machine;
class ServiceClient;

class LeaderShell : private LeaderObserver {
 public:
  /// `votes` made it the leader; none: it begins at the endpoint, or the service lets it lead
  /// (`service`; null: nodes vote). `agent` and `service` outlive it.
  LeaderShell(Machine& machine, const LeaderOptions& options, const std::set<VoterId>& votes,
              AgentShell& agent, ServiceClient* service);
  ~LeaderShell() override;
  LeaderShell(const LeaderShell&) = delete;
  LeaderShell& operator=(const LeaderShell&) = delete;

  /// Its own agent, on a socket pair.
  void connect_local(ConnectionId connection) { add(connection, true); }
  [[nodiscard]] bool serves(ConnectionId connection) const { return nodes_.contains(connection); }
  void on_message(ConnectionId connection, const Message& said);
  /// What it answers an agent that asks on a connection of its own.
  std::optional<message::Message> answer(const message::Message& question);
  void on_call_answered(CallAnswered answered) { step(std::move(answered)); }
  /// Says farewell.
  void resign();
  /// Its process dies: the kernel closes what it has, or nothing is said.
  void end(bool kernel_lives);
  [[nodiscard]] const Leader& leader() const { return leader_; }

 private:
  struct Peer {
    bool exists = false;  ///< it has a connection; who only asks a question has none
    ConnectionId connection{};
    bool local = false;
    bool watched = false;
    bool gone = false;
    Duration heard_at{};
  };

  [[nodiscard]] Duration timeout() const;
  NodeId add(ConnectionId connection, bool local);
  NodeId new_node();
  /// Nodes are numbered from 1.
  Peer& peer_of(NodeId node) { return peers_[number(node) - 1]; }
  void watch_silence(NodeId id);
  void lost(SessionClosed closed);
  void step(LeaderInput input);
  void arm();
  void applied(Instant now, const Event& event, const std::vector<Command>& commands,
               const Membership& membership) override;
  void carry_out(const SendMessage& order);
  void carry_out(const SendAndClose& order);
  void carry_out(const DropSession& order);
  void carry_out(const WatchSession& order);
  void carry_out(const OpenStore& /*order*/) {}
  void carry_out(AssignWorld order);
  void carry_out(const EndJob& order);
  void carry_out(const WarnPeople& /*order*/) {}
  void carry_out(const StepDown& order);
  void carry_out(const CallVoters& order);
  void carry_out(const CallEndpoints& order);
  void call(int machine, int port, const message::Follow& call,
            const std::optional<VoterId>& voter);
  [[nodiscard]] bool dies_with(const message::Message& message);
  void close(NodeId id);
  [[nodiscard]] bool is_service(NodeId id) const { return voter_ && voter_->session() == id; }
  /// On the machine's clock, as long as this leader is there.
  template <class Action>
  void later(Duration delay, Action action);

  Machine& machine_;
  AgentShell& agent_;
  LeadershipId leadership_;
  Leader leader_;
  bool dying_ = false;      ///< its machine loses its power as it speaks
  std::deque<Peer> peers_;  ///< also those that are gone: what they said may come late
  std::unordered_map<ConnectionId, NodeId> nodes_;
  std::vector<LeaderInput> inputs_;
  bool stepping_ = false;
  std::optional<Instant> armed_;
  std::unique_ptr<ServiceVoterShell> voter_;  ///< null: nodes vote
  std::optional<message::Message> answer_;
  std::optional<NodeId> asked_;  ///< whose answer is kept
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
