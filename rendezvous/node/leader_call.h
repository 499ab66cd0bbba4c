// LeaderCall: for whom the call of a leader (message::Follow) is. Pure.
#pragma once

#include <string>

#include "rendezvous/membership/node_description.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

/// What all nodes of a job are given alike, as this node was given it.
message::JobOptions job_options(const NodeDescription& node);

/// Whether a call is for an agent or a coordinator of this job. A call to an endpoint is for one
/// that `begins` there, without a world.
bool call_is_for(const message::Follow& call, const std::string& job_id,
                 const message::JobOptions& job, bool begins);

/// Whether a coordinator of that term gives way to a call that is for it. Of equal terms the leader
/// that was elected comes before a coordinator that `begins`, because that one raised its term by
/// what its nodes remember, without a vote. Elected leaders alone call.
bool outranks(const message::Follow& call, Term term, bool begins);

}  // namespace ddprun
