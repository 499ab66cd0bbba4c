// What a coordinator's options mean to its state machine and to its event log. Pure; internal to
// control.
#pragma once

#include "rendezvous/control/coordinator.h"
#include "rendezvous/control/event_json.h"
#include "rendezvous/protocol/message.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {

MembershipOptions membership_options(const CoordinatorOptions& options);
/// Those of a successor: `own`, with the job's terms as the coordinator before told them.
CoordinatorOptions successor_options(const CoordinatorOptions& own,
                                     const message::StandbyState& known, Term term);
message::JobOptions job_options(const CoordinatorOptions& options);
/// Whether a call of a leader of this job is for a coordinator with these options. One to an
/// endpoint is for a coordinator that `begins` there, without a world.
bool is_called(const CoordinatorOptions& own, bool begins, const message::Follow& call);
/// Whether a coordinator that has such a term gives way to that call. One that `begins` may have
/// raised its term to that of a leader that was elected, by what those that it let in remember.
bool outranks(const CoordinatorOptions& own, Term term, bool begins, const message::Follow& call);
EventJson::Job event_job(const CoordinatorOptions& options);

}  // namespace ddprun
