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

/// Whether a coordinator of that term gives way to a call that is for it. A call to an endpoint
/// wins with an equal term: a coordinator that begins there raises its term to what the nodes that
/// it lets in remember, and that may be the term of an elected leader.
bool outranks(const message::Follow& call, Term term);

}  // namespace ddprun
