// What an agent shows of itself and its job, put together from its parts.
#pragma once

#include <string>

#include "agent/agent_state.h"
#include "agent/asked.h"
#include "agent/job_spec.h"
#include "agent/operations/job_snapshot.h"

namespace ddprun {

class Follower;
class LocalWorkers;

struct AgentParts {
  const JobSpec& spec;
  const std::string& run_dir;  ///< of its logs; empty: there are none
  agent::State state;
  const agent::Asked& asked;
  const LocalWorkers& workers;
  const Follower& follower;
};

/// Reads /proc for each worker, and nothing else that takes time.
JobSnapshot take_snapshot(const AgentParts& agent);

/// Pure. Why the job neither runs nor gathers, as far as this agent is concerned, as a clause;
/// empty: it does. The pause between two attempts is part of a job that runs: a probe that failed
/// there would end a job that is about to go on.
/// `job_ends`: this agent's own coordinator has decided the end.
std::string why_unhealthy(agent::State state, const agent::Asked& asked, bool job_ends);

}  // namespace ddprun
