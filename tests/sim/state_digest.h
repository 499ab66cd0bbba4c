// StateDigest: what an agent of the simulation has decided, of all that Node, Leader and Leadership
// show.
#pragma once

#include "tests/sim/agent_shell.h"
#include "tests/sim/digest.h"

namespace ddprun::sim {

void add_decisions(Digest& digest, AgentShell& agent);
/// When it acts next, and how old its lease is.
void add_deadlines(Digest& digest, const AgentShell& agent);

}  // namespace ddprun::sim
