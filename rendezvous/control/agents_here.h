// AgentsHere: which agents live in this network namespace of this host, as its kernel knows it. An
// agent that was here and is not in the list is dead. That lets a job continue of which a
// majority died at once (membership/old_job.h). Internal to control.
#pragma once

#include "rendezvous/base/fd.h"
#include "rendezvous/membership/node_description.h"

namespace ddprun {

/// While the socket is open, this agent is in the list of each agent here. An empty one: the
/// system gave none, and this agent is in no list.
Fd mark_agent(VoterId self);

/// Own host and the marked agents, now. Without agents where they are more than kAgentsHereMax, or
/// the system does not tell.
AgentHost agents_here();

}  // namespace ddprun
