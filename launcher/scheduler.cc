#include "launcher/scheduler.h"

#include "launcher/python_numbers.h"

namespace ddprun {
namespace {

/// A launcher's variables for the place of this process in what it started.
struct Source {
  const char* rank;
  const char* size;
};

// The innermost first: mpirun inside of a Slurm job inherits SLURM_PROCID, and that is the number
// of mpirun's daemon. MPICH, Intel MPI and srun --mpi=pmi2 set the ones of PMI.
constexpr Source kSources[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    // Of the step: SLURM_NTASKS may be the job's, in which srun starts several steps.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"SLURM_NODEID", "SLURM_STEP_NUM_NODES"},
};

/// A variable may be left over from an outer job, or empty: what is no number counts as not set.
std::optional<int> number(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  const auto number = value == nullptr ? std::nullopt : read_int(value);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::optional<SchedulerRank> scheduler_rank(const Environment& environment) {
  for (const Source& source : kSources) {
    if (const auto rank = number(environment, source.rank)) {
      return SchedulerRank{*rank, number(environment, source.size), source.rank};
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
