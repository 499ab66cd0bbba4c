// Slurm: what its variables say (srun(1), "OUTPUT ENVIRONMENT VARIABLES"). Pure but for files of
// /proc, which are asked for.
//
// Only srun starts one process for each task. The script of sbatch has SLURM_PROCID=0 too, and runs
// on the first node alone; and a job that was submitted by a task of another one inherits that
// task's variables. So a process is one of many only if it is in a step, the step is on this node,
// and the daemon above the process, where it can be seen, is not that of a script.
#pragma once

#include <optional>

#include "launcher/scheduler/allocation.h"

namespace ddprun {

/// None outside of Slurm.
std::optional<BatchJob> slurm_job(const Environment& environment);
/// Of a process that srun started, or that is in a script or shell of the job. None outside.
std::optional<Allocation> slurm_allocation(const Environment& environment,
                                           const ReadFile& read_file);

/// Whether srun (--mpi=pmi2) has set the variables of PMI, too, and not another launcher in it.
bool srun_speaks_pmi(const Environment& environment, const ReadFile& read_file);

}  // namespace ddprun
