// Compared options: those of the command line that the coordinator goes by, as facts of a node's
// environment. Every node may become the coordinator, so a job in which they differ changes its
// rules with it. Pure. docs/environment-agreement.md
#pragma once

#include "agent/job_spec.h"
#include "rendezvous/membership/node_environment.h"

namespace ddprun {

/// One fact for each of kOptionFacts (compared_variables.h), also where the option is not given;
/// but none for those that `spec` does not compare (same_env_ignore).
NodeEnvironment compared_options(const JobSpec& spec);

}  // namespace ddprun
