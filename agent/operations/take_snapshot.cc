#include "agent/operations/take_snapshot.h"

#include <unistd.h>

#include <chrono>

#include "agent/host/host.h"
#include "agent/local_workers.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/control/coordinator.h"
#include "rendezvous/control/follower.h"
#include "rendezvous/node/node.h"

namespace ddprun {

// Each state is named, so that a new one does not count as healthy by an oversight: a probe that
// stays green keeps a dead job on its machines.
std::string why_unhealthy(agent::State state, const agent::Asked& asked, bool job_ends) {
  switch (state) {
    case agent::State::asked:
    case agent::State::asked_now:
    case agent::State::fencing_asked:
      return "the job ends: " + asked.reason();
    case agent::State::ending:
    case agent::State::ending_asked:
    case agent::State::ending_now:
    case agent::State::flushing:
    case agent::State::flushing_asked:
    case agent::State::over:
      return "the job is over for this node";
    case agent::State::dying:
    case agent::State::dying_now:
      return "the process that watches the agent was killed";
    case agent::State::serving:
    case agent::State::fencing:
      break;
  }
  // It may take seconds, and end well; but nobody trains meanwhile, and it may be the last state.
  if (state == agent::State::fencing || asked.has_lost()) {
    return "the coordinator is lost, and another one is looked for";
  }
  // Also where another node was asked: all of them save or stop for it, which may take minutes.
  if (asked.is_ordered_to_end()) {
    return "the job ends: " + asked.reason();
  }
  return job_ends ? "the job ends" : "";
}

/// All of it at one moment, between two events of the loop. So its parts belong together.
JobSnapshot take_snapshot(const AgentParts& agent) {
  const Instant now = std::chrono::steady_clock::now().time_since_epoch();
  JobSnapshot shown;
  shown.job_id = agent.spec.job_id;
  shown.program = agent.spec.program.display_name;
  shown.host = host_name();
  shown.agent_pid = ::getpid();
  shown.agent_state = to_text(agent.state);
  shown.log_dir = agent.run_dir;
  shown.time =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  // An agent's own memory is counted as a worker's is.
  WorkerSnapshot self;
  self.pid = shown.agent_pid;
  add_usage(self);
  shown.agent_resident_bytes = self.resident_bytes;
  if (const World* const world = agent.workers.world()) {
    shown.attempt = world->attempt;
    shown.world_size = world->world_size;
  }
  shown.workers = agent.workers.snapshots();
  shown.min_nodes = agent.spec.min_nodes;
  shown.max_nodes = agent.spec.max_nodes;
  shown.max_restarts = agent.spec.max_restarts;
  // A coordinator's own agent follows it as well, and would show the copy that it was told.
  if (const Coordinator* const own = agent.follower.coordinator()) {
    shown.job = view_of(own->membership(), now);
    const NodeDescription& self_told = agent.follower.node().description();
    // Of a job of one node nothing listens but for its own workers.
    if (agent.spec.max_nodes > 1 && !self_told.addresses.empty() && self_told.port != 0) {
      shown.coordinator_at = to_text(Endpoint{self_told.addresses.front(), self_told.port});
    }
  } else {
    shown.job = view_of(agent.follower.node().known(), now);
    shown.coordinator_at = agent.follower.node().leader_address();
  }
  shown.unhealthy = why_unhealthy(agent.state, agent.asked, shown.job.ends);
  return shown;
}

}  // namespace ddprun
