// ModelCoordinator: what control/coordinator does around the real Membership, on simulated
// connections: it feeds the state machine, carries out its commands, notices silence, and watches
// its own quorum.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "rendezvous/membership/membership.h"
#include "rendezvous/node/leader_lease.h"
#include "tests/sim/network.h"
#include "tests/sim/observer.h"

namespace ddprun::sim {

class Machine;

class ModelCoordinator : private LeaderLease::Quorum {
 public:
  ModelCoordinator(Machine& machine, const MembershipOptions& options,
                   std::function<void()> deposed);
  ~ModelCoordinator() override;
  ModelCoordinator(const ModelCoordinator&) = delete;
  ModelCoordinator& operator=(const ModelCoordinator&) = delete;

  /// Once; `votes` made it the coordinator.
  void begin(const std::set<VoterId>& votes);
  /// Its own agent, on a socket pair.
  void connect_local(ConnectionId connection) { add(connection, true); }
  void on_message(ConnectionId connection, const Message& message);
  /// Says farewell.
  void resign();
  /// Its process dies: the kernel closes what it has, or nothing is said.
  void end(bool kernel_lives);
  /// A later coordinator says that it leads.
  void hear_of(Term term);

  [[nodiscard]] Term term() const { return membership_.leadership().term(); }
  [[nodiscard]] std::vector<VoterId> absent_voters() const;

 private:
  struct Peer {
    ConnectionId connection{};
    bool local = false;
    bool greeted = false;
    bool leaves = false;
    bool watched = false;
    bool gone = false;
    VoterId voter{};
    Duration fresh{};
    bool followed = false;  ///< `fresh` is known
    Duration heard_at{};
  };

  NodeId add(ConnectionId connection, bool local);
  void obey(NodeId id, const Hello& hello);
  void obey(NodeId id, const Beat& beat);
  void obey(NodeId id, const Echo& echo);
  void obey(NodeId id, const Leaving& leaving);
  void obey(NodeId id, const Report& report);
  void obey(NodeId id, const Closed& closed);
  template <class Other>
  void obey(NodeId, const Other&) {}
  void echoed(Peer& peer, Duration stamp);
  void lost(NodeId id, const std::string& why, Duration silent_for, bool died);
  void watch_silence(NodeId id);
  void feed(Event event);
  void arm();
  [[nodiscard]] bool dies_with(const Command& command);
  void carry_out(Command command);
  void send_order(NodeId id, const std::shared_ptr<const Command>& command, int place = 0);
  void dismiss(NodeId id);
  [[nodiscard]] bool needed() const override;
  [[nodiscard]] bool needed_later() const override;
  [[nodiscard]] Instant contact(Instant now) const override;
  [[nodiscard]] bool outdated() const override;
  bool check_lease(const std::optional<std::string>& lost);
  void depose();
  /// On the machine's clock, as long as this coordinator is there.
  template <class Action>
  void later(Duration delay, Action action);

  Machine& machine_;
  LeadershipId leadership_;
  Membership membership_;
  std::function<void()> deposed_;
  bool deposing_ = false;
  bool dying_ = false;            ///< its machine loses its power as it speaks
  std::map<NodeId, Peer> peers_;  ///< also those that are gone: what they said may come late
  std::map<ConnectionId, NodeId> nodes_;
  std::uint64_t last_id_ = 0;
  std::deque<Event> events_;
  bool feeding_ = false;
  std::optional<Instant> armed_;
  LeaderLease lease_;
  bool store_open_ = false;
  VoterId self_;
  ReplicatedState inherited_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
