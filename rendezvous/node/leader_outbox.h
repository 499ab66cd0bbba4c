// LeaderOutbox: the commands of a job's state machine as messages and actions, in the order in
// which they were given. Pure.
#pragma once

#include <utility>
#include <vector>

#include "rendezvous/node/leader_io.h"

namespace ddprun {

class LeaderOutbox {
 public:
  /// `options` outlive this.
  explicit LeaderOutbox(const LeaderOptions& options) : options_(options) {}

  void add(LeaderAction action) { actions_.push_back(std::move(action)); }
  void send(std::vector<NodeId> nodes, message::Message message);
  /// The session ends with it.
  void send_away(NodeId node, message::Message message);
  /// All that was added since the last time.
  std::vector<LeaderAction> take() { return std::exchange(actions_, {}); }

  /// At `now`, to the voters: the state, and where all `nodes` of the job are. Those that vote come
  /// first, and the others in messages of bounded size.
  void replicate(const Replicate& order, std::vector<VoterAddress> nodes, Instant now);

  /// To these voters: where nodes are, in messages of bounded size.
  void send_addresses(const std::vector<NodeId>& voters, const std::vector<VoterAddress>& nodes);

  void give(const Welcome& order, Instant now);
  void give(TellStory order);
  void give(OpenStore order) { add(order); }
  void give(AssignWorld order) { add(std::move(order)); }
  void give(TellWorld order);
  void give(StopWorkers order);
  void give(const Release& order);
  void give(TellWaiting order);
  void give(WatchNode order) { add(WatchSession{order.node}); }
  void give(const AskEnvironment& order);
  void give(TellEnvironments order) { add(WarnPeople{std::move(order.text)}); }
  void give(TellIncident order);

 private:
  const LeaderOptions& options_;
  std::vector<LeaderAction> actions_;
};

}  // namespace ddprun
