// PBS: what the variables of PBS Professional, OpenPBS and Torque say (qsub(1), pbsdsh(1)). Pure
// but for the node file, which is asked for.
//
// pbsdsh starts a process on each node; the job's own script is task 1 of node 0 and runs on the
// first node alone.
#pragma once

#include <optional>

#include "launcher/scheduler/allocation.h"

namespace ddprun {

/// None outside of PBS.
std::optional<BatchJob> pbs_job(const Environment& environment, const ReadFile& read_file);
/// One agent for each host of PBS_NODEFILE. None outside.
std::optional<Allocation> pbs_allocation(const Environment& environment, const ReadFile& read_file);

}  // namespace ddprun
