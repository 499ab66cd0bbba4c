// SchedulerRank: the place that a batch scheduler or MPI launcher gave to this process. Pure.
//
// Where one agent runs for each node (srun --ntasks-per-node=1, mpirun --map-by ppr:1:node) this is
// the order in which the person thinks of the nodes, and often that of the network's topology. It
// is a wish, not a claim: a loop of single-task steps gives every agent rank 0.
#pragma once

#include <optional>
#include <string>

#include "launcher/options.h"

namespace ddprun {

struct SchedulerRank {
  int rank = 0;
  std::optional<int> size;  ///< of the group that the rank is in, when told
  std::string variable;     ///< that has the rank
};

/// The innermost launcher's, which is the last one that started us: OMPI_COMM_WORLD_RANK, PMI_RANK,
/// PMIX_RANK, SLURM_PROCID, SLURM_NODEID, PBS_NODENUM, LSF_PM_TASKID (counted from 1),
/// JOB_COMPLETION_INDEX, in this order. (mpirun within a Slurm job starts its daemons through srun,
/// so that SLURM_PROCID is a daemon's.) What is no whole number from 0 is passed over.
std::optional<SchedulerRank> scheduler_rank(const Environment& environment);

}  // namespace ddprun
