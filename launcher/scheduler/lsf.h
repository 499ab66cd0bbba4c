// LSF: what the variables of IBM Spectrum LSF say (its reference, "Environment variables set for
// job execution"). Pure.
//
// `blaunch -z` starts a process on each host, and numbers them from 1 in LSF_PM_TASKID. The job's
// own script has no such number and runs on the first host alone.
#pragma once

#include <optional>

#include "launcher/scheduler/allocation.h"

namespace ddprun {

/// None outside of LSF.
std::optional<BatchJob> lsf_job(const Environment& environment);
/// One agent for each host of LSB_MCPU_HOSTS. None outside.
std::optional<Allocation> lsf_allocation(const Environment& environment);

}  // namespace ddprun
