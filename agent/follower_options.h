// What an agent tells of itself, and what its follower and its coordinator are made with: the part
// of the JobSpec that concerns them.
#pragma once

#include <memory>
#include <vector>

#include "agent/job_spec.h"
#include "rendezvous/control/follower.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/node_environment.h"

namespace ddprun {

/// Whether the agents of this job can follow another coordinator when theirs is lost.
bool outlives_its_coordinator(const JobSpec& spec);

/// What is compared with the other nodes: of a node alone nothing, and a witness runs nothing.
NodeEnvironment compared_facts(const JobSpec& spec);
NodeDescription describe(const JobSpec& spec, const NodeEnvironment& environment);
/// `event_log` may be null.
FollowerOptions follower_options(boost::asio::io_context& io, const JobSpec& spec,
                                 std::shared_ptr<EventLogFile> event_log);

/// Signals to handle: those of the options, and those that have a meaning of their own: SIGUSR1, a
/// warning (Slurm's --signal), and SIGUSR2, to leave.
std::vector<int> signals_for(const JobSpec& spec);

}  // namespace ddprun
