// What a coordinator's options mean to its state machine and to its event log. Pure; internal to
// control.
#pragma once

#include "rendezvous/control/chronicle.h"
#include "rendezvous/control/coordinator.h"
#include "rendezvous/control/message.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {

MembershipOptions membership_options(const CoordinatorOptions& options);
/// Those of a successor: `own`, with the job's terms as the coordinator before told them.
CoordinatorOptions successor_options(const CoordinatorOptions& own, const message::Heir& known,
                                     Term term);
Chronicle::Job chronicle_job(const CoordinatorOptions& options);

}  // namespace ddprun
