// Narrator: tells what the nodes of a simulated cluster decide, a decision a line, in Raft's words.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rendezvous/node/leader.h"
#include "rendezvous/node/node.h"

namespace ddprun::sim {

class Cluster;

class Narrator {
 public:
  /// `cluster` outlives it.
  explicit Narrator(Cluster& cluster) : cluster_(cluster) {}

  /// One of the actions that a Node answered with.
  void decided(int machine, const NodeInput& input, const NodeAction& action);
  /// The coordinator at this machine was told this, and ordered that.
  void led(int machine, const Event& event, const std::vector<Command>& commands);
  void say(int machine, const std::string& what);
  /// All lines since the last call.
  std::string take();

 private:
  void tell_event(int machine, const Event& event);
  void tell_commands(int machine, const std::vector<Command>& commands);
  void tell_waiting(int machine, const TellWaiting& told);
  void tell_world(int machine, const std::vector<Command>& commands);
  /// What is decided again and again, the first time.
  void say_news(int machine, const std::string& what);
  [[nodiscard]] std::string name(int machine, NodeId node) const;
  [[nodiscard]] std::string names(int machine, const std::vector<NodeId>& nodes) const;
  [[nodiscard]] std::string name(VoterId voter) const;
  [[nodiscard]] std::string names(const std::vector<VoterId>& voters) const;

  Cluster& cluster_;
  std::string text_;
  std::map<int, std::map<NodeId, std::string>> nodes_;  ///< of each machine's coordinator
  std::map<int, std::string> repeated_;                 ///< the newest line of say_news()
  std::map<int, ConfigurationNumber> configuration_;    ///< of its newest world
};

}  // namespace ddprun::sim
