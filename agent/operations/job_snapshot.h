// JobSnapshot: how the job is at one moment, as one agent knows it: what ddpctl, a probe and
// Prometheus are told. Plain values, and the pure functions that make them of what the coordinator
// decides by, or of what it has told this agent. status_json.h and prometheus_text.h write them.
//
// The coordinator knows all. Another agent knows its own workers, and where it is a voter a copy
// of the job's story that is some seconds old; of the other nodes it knows nothing, and says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/operations/worker_snapshot.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {

class FollowerState;
class Membership;

/// A node that is part of the job and connected.
struct NodeSnapshot {
  NodeId id{};  ///< people name it by that where several hosts have one name
  std::string host;
  std::string address;  ///< numeric; empty: the coordinator's own
  /// "working", "finished", "stopping", "stopped"; of the others "waiting", or "witness".
  std::string state;
  bool leaving = false;            ///< asked to leave in order
  bool hosts_coordinator = false;  ///< the agent that was asked
  int workers = 0;                 ///< 0 for a witness
  std::optional<int> first_rank;   ///< of the attempt that lives
  std::chrono::nanoseconds here_for{};
};

/// What of the whole job is known.
struct JobView {
  enum class Source : std::uint8_t {
    none,         ///< no coordinator has told anything
    copy,         ///< told by the coordinator `age` ago
    coordinator,  ///< it is in this agent
  };
  Source source = Source::none;
  std::chrono::nanoseconds age{};
  std::string state;               ///< "gathering", "running", ...; empty: not known
  bool ends = false;               ///< the coordinator has decided its end
  std::optional<JobSummary> told;  ///< with no meaning of its verdict; none: not known
  bool knows_nodes = false;        ///< else the three below mean nothing
  std::vector<NodeSnapshot> nodes;
  RendezvousStatus absent;  ///< its lists of the refused and the lost
};

struct JobSnapshot {
  // This agent and its node.
  std::string job_id;
  std::string program;
  std::string host;
  std::int32_t agent_pid = 0;
  std::string agent_state;     ///< agent_state.h
  std::string coordinator_at;  ///< where it is reached; empty: none is known, or there is one node
  /// Why the job neither runs nor gathers, as a clause; empty: it does.
  std::string unhealthy;
  std::string log_dir;  ///< empty: there are no files
  std::uint64_t agent_resident_bytes = 0;
  std::chrono::sys_time<std::chrono::milliseconds> time{};
  // The attempt that this node was part of last.
  std::optional<AttemptNumber> attempt;
  int world_size = 0;
  std::vector<WorkerSnapshot> workers;
  // The job.
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  JobView job;
};

/// Pure. As the coordinator knows it.
JobView view_of(const Membership& membership, Instant now);
/// Pure. As an agent knows it that follows: from its copy, if it has one.
JobView view_of(const FollowerState& known, Instant now);

}  // namespace ddprun
