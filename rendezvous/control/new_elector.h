// A number for a new life of an agent as an elector. Internal to control.
#pragma once

#include "rendezvous/membership/succession.h"

namespace ddprun {

/// Random, 63 bits, never 0: two agents of one job do not meet in it.
ElectorId new_elector();

}  // namespace ddprun
