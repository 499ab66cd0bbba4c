// What a coordinator's options mean to its state machine and to its event log. Pure; internal to
// control.
#pragma once

#include "rendezvous/control/chronicle.h"
#include "rendezvous/control/coordinator.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {

MembershipOptions membership_options(const CoordinatorOptions& options);
Chronicle::Job chronicle_job(const CoordinatorOptions& options);

}  // namespace ddprun
