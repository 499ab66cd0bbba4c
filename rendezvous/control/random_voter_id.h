// Numbers for a new life of an agent as a voter, and for a new job. Internal to control.
#pragma once

#include "rendezvous/membership/configuration.h"

namespace ddprun {

/// Random, 63 bits, never 0: two agents of one job do not meet in it.
VoterId random_voter_id();
JobInstance random_job_instance();

}  // namespace ddprun
