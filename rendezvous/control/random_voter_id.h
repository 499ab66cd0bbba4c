// A number for a new life of an agent as a voter. Internal to control.
#pragma once

#include "rendezvous/membership/configuration.h"

namespace ddprun {

/// Random, 63 bits, never 0: two agents of one job do not meet in it.
VoterId random_voter_id();

}  // namespace ddprun
