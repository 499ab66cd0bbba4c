// NodeDescription: what a node says of itself when it joins. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/node_environment.h"

namespace ddprun {

/// Workers of one node, nodes of one job: beyond these a slipped key is likelier than a wish, and a
/// world size has room in an int (wire_values.h).
inline constexpr int kLocalWorldSizeMax = 4096;
inline constexpr int kNodesMax = 262'144;

/// A voter's copy of the replicated state, for a coordinator that begins without any.
struct StateCopy {
  ReplicatedState replicated;
  JobSummary so_far;
  std::chrono::nanoseconds told_at{};  ///< on the agent's clock (NodeDescription::said_at)
  /// The coordinator that sent it was at the job's first endpoint: who holds that now, on the same
  /// host, knows that it is no more.
  bool at_endpoint = false;
  HostIdentity host = {};
  /// Its kernel closed the connection, as it does when the process dies.
  bool saw_close = false;
  /// Nodes that it was told of since, which a successor may not have been; the newest.
  std::vector<VoterAddress> others = {};

  friend bool operator==(const StateCopy&, const StateCopy&) = default;
};

/// What a node says of itself in its hello. What follows job_id, up to max_restarts, must be equal
/// on all nodes: a node that disagrees is rejected with a reason that names the field and both
/// values.
struct NodeDescription {
  std::string host_name;
  std::int32_t agent_pid = 0;
  int local_world_size = 1;
  std::string role;
  std::optional<int> node_rank;  ///< --node-rank: one node's alone
  /// What the scheduler says of this node's place. A wish for the order: several may have the same.
  std::optional<int> order_hint;
  bool hosts_coordinator = false;
  /// It came to an endpoint that its user named, not to one that an agent told it.
  bool by_endpoint = false;

  std::string job_id;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  /// Its name, as the user wrote it, for people. Nodes may run different ones.
  std::string program;

  // Of its part in elections (configuration.h).

  /// It votes, and may be the coordinator, but runs no workers.
  bool witness = false;
  /// 0: it takes no part in elections.
  VoterId voter{};
  /// Where other agents reach it, numeric; none where it takes no part in elections.
  std::vector<std::string> addresses = {};
  std::uint16_t port = 0;
  Promise promise = {};
  /// Of an agent that was part of the job.
  std::optional<Past> past = {};

  /// Of the facts that are compared between nodes (environment_check.h).
  EnvironmentDigest environment = {};
  /// Equal on all nodes, as the terms above.
  bool require_same_env = false;
  /// Why this node cannot run workers, a sentence: it comes to say so, and is refused. Empty: it
  /// can.
  std::string unable = {};
  /// Of a voter.
  std::optional<StateCopy> copy = {};
  /// When it says this, on its own steady clock. Only ages are made of what it tells of that clock.
  std::chrono::nanoseconds said_at{};

  friend bool operator==(const NodeDescription&, const NodeDescription&) = default;
};

/// How long before its hello that was; `at` is on the node's clock.
[[nodiscard]] inline std::chrono::nanoseconds ago(const NodeDescription& node,
                                                  std::chrono::nanoseconds at) {
  return node.said_at > at ? node.said_at - at : std::chrono::nanoseconds(0);
}

/// It was part of that instance of the job, or was told of it as a voter.
[[nodiscard]] inline bool remembers(const NodeDescription& node, JobInstance instance) {
  return (node.past && node.past->instance == instance) ||
         (node.copy && node.copy->replicated.instance == instance);
}

}  // namespace ddprun
