// What a coordinator's options mean to its state machine and to its event log. Pure; internal to
// control.
#pragma once

#include "rendezvous/control/coordinator.h"
#include "rendezvous/control/event_json.h"
#include "rendezvous/node/leader.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

MembershipOptions membership_options(const CoordinatorOptions& options);
LeaderOptions leader_options(const CoordinatorOptions& options, bool failover);
/// Those of a successor: `own`, with the job's terms as the coordinator before told them.
CoordinatorOptions successor_options(const CoordinatorOptions& own,
                                     const message::VoterState& known, Term term);
/// What the consensus service joins as: it promises nothing, for it lets one process lead at a
/// time.
NodeDescription service_witness(const CoordinatorOptions& options);
EventJson::Job event_job(const CoordinatorOptions& options);

}  // namespace ddprun
