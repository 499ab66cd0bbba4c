// Scheduler: which of the launchers and schedulers around this process speaks for it. Pure.
//
// The rule for nested ones: the innermost that started several processes counts, and what it does
// not know comes from the batch job around it. In this order:
//   1. ddprun or torchrun (TORCHELASTIC_RUN_ID): a worker that runs ddprun means a job of its own,
//      so nothing is taken, and where a launcher started several processes that is said;
//   2. mpirun or mpiexec, also inside of a batch job: their number of processes, the batch job's
//      first host. (srun --mpi=pmi2 sets PMI_* as well, and counts as srun.)
//   3. srun, pbsdsh or blaunch of the batch job: Slurm, then PBS, then LSF;
//   4. an Indexed Job of Kubernetes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/scheduler/allocation.h"

namespace ddprun {

/// None without any of them.
std::optional<Allocation> find_allocation(const Environment& environment, const ReadFile& read_file,
                                          const std::function<std::string()>& full_host_name);

}  // namespace ddprun
