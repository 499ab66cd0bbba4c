// LeaderCall: for whom the call of a leader (message::Follow) is. Pure.
#pragma once

#include <string>

#include "rendezvous/membership/membership.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

/// What all nodes of a job are given alike, as this node was given it.
message::JobOptions job_options(const NodeDescription& node);
/// As the coordinator was given it.
message::JobOptions job_options(const MembershipOptions& job);

/// Whether a call is for an agent or a coordinator of this job: for this very voter, or to an
/// endpoint. `instance` 0: it knows of no job yet, and may join the one that calls. Of a call to an
/// endpoint the caller of this compares the options.
bool call_is_for(const message::Follow& call, VoterId voter, JobInstance instance,
                 const std::string& job_id);

/// Whether a coordinator that stands for that term (Leadership::stands_for) gives way to a call
/// that is for it. One that `begins` gives way to a leader of that term, too: such a leader was
/// elected. Elected leaders alone call.
bool outranks(const message::Follow& call, Term term, bool begins);

/// Whether an answer is of another job than the one that this node remembers.
bool is_of_another_job(const message::Moved& answer, const NodeDescription& node);

}  // namespace ddprun
