// Follower: keeps this agent with the coordinator of its job, term by term. It joins, is the client
// of the coordinator that answers or hosts it, answers those who want to become it, and after a
// loss
// - once the agent says that its workers are gone - stands for it or follows who won.
// docs/failover.md draws it.
//
//   joining --answered--> following --lost--> fencing --quiet--> searching --answered, called-->
//   following joining --bound-----> leading   --deposed-^                 searching
//   --elected-----------> leading
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"
#include "rendezvous/control/coordinator.h"
#include "rendezvous/control/coordinator_client.h"

namespace ddprun {

class ConsensusService;
class Node;

struct FollowerOptions {
  /// The first is the one that a new job begins at; at the others, agents know where it is.
  std::vector<Endpoint> endpoints;
  NodeDescription node;
  std::optional<bool> is_host;  ///< see SearchRequest
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds heartbeat_timeout{3'000};
  /// For the time that this agent is the coordinator; what an election decides is filled in.
  CoordinatorOptions coordinator;
  /// What of this node is compared with others; `node` has its digest.
  NodeEnvironment environment = {};
  /// Whether the job outlives its coordinator. Otherwise its loss is the end for this node.
  bool failover = false;
  /// Decides who leads, in place of the nodes' votes; null: they vote. With it the one endpoint is
  /// any port of this host.
  std::shared_ptr<ConsensusService> service = {};
};

/// What an agent has to do by the word of its coordinator. Called on the loop.
class FollowerHandler {
 public:
  FollowerHandler() = default;
  FollowerHandler(const FollowerHandler&) = delete;
  FollowerHandler& operator=(const FollowerHandler&) = delete;
  virtual ~FollowerHandler() = default;

  /// There is a coordinator that can be asked: client() is it. Comes before all that it orders.
  virtual void on_following() {}
  virtual void on_assigned(const World& world) = 0;
  virtual void on_stop(const message::Stop& order) = 0;
  virtual void on_finished(const JobSummary& summary) = 0;
  /// ddpctl on another node asks this one to leave the job, as SIGUSR2 does.
  virtual void on_leave_asked() {}
  /// Of Follower::drain(), in the order of the calls: why not; empty: that node is asked.
  virtual void on_drain_answered(const std::string& /*why_not*/) {}
  virtual void on_waiting(const RendezvousStatus& table) = 0;
  /// There is no coordinator any more. Stop all workers within a tenth of the heartbeat timeout,
  /// then call quiet().
  virtual void on_lost(const Error& why) = 0;
  /// This node takes no part any more: it was rejected, or found no coordinator in time. Final.
  virtual void on_failed(const Error& why) = 0;
};

class Follower {
 public:
  /// `handler` outlives this. `led`: for the time that this agent is the coordinator; `deposed` is
  /// filled in.
  Follower(boost::asio::io_context& io, FollowerOptions options, FollowerHandler& handler,
           CoordinatorHooks led, std::shared_ptr<spdlog::logger> log);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// Begins to join. Once, on the loop or before it runs.
  void start();
  /// No worker lives here; after `lost`.
  void quiet();
  /// This node is to leave the job. Who asks its coordinator for that is the caller.
  void leaves();
  /// Another node is to leave: see CoordinatorClient::drain. Without a coordinator the answer comes
  /// at once.
  void drain(const std::string& node);
  /// Joins nobody any more.
  void give_up();

  /// Null while there is no coordinator.
  [[nodiscard]] CoordinatorClient* client() const;
  /// Null unless it runs in this agent.
  [[nodiscard]] Coordinator* coordinator() const;
  /// The address by which other nodes reach this one; there is a coordinator.
  [[nodiscard]] std::string own_address() const;
  /// What this agent knows of the job, for people.
  [[nodiscard]] const Node& node() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
