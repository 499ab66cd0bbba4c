#include "launcher/scheduler/scheduler_rank.h"

#include "launcher/scheduler/told.h"

namespace ddprun {
namespace {

/// A launcher's variables for the place of this process in what it started.
struct Source {
  const char* rank;
  const char* size;  ///< empty where none is told
  int first = 0;     ///< the number of the first
};

// The innermost first: mpirun inside of a Slurm job inherits SLURM_PROCID, and that is the number
// of mpirun's daemon. MPICH, Intel MPI and srun --mpi=pmi2 set the ones of PMI.
constexpr Source kSources[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"PMIX_RANK", ""},
    // Of the step: SLURM_NTASKS may be the job's, in which srun starts several steps.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"SLURM_NODEID", "SLURM_STEP_NUM_NODES"},
    {"PBS_NODENUM", ""},
    {"LSF_PM_TASKID", "", 1},
    {"JOB_COMPLETION_INDEX", ""},
};

}  // namespace

std::optional<SchedulerRank> scheduler_rank(const Environment& environment) {
  for (const Source& source : kSources) {
    // A variable may be left over from an outer job: what is no number counts as not set.
    if (const auto rank = told_number(environment, source.rank); rank && *rank >= source.first) {
      return SchedulerRank{*rank - source.first, told_number(environment, source.size),
                           source.rank};
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
