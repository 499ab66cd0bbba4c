#include "launcher/scheduler/scheduler.h"

#include "launcher/scheduler/kubernetes.h"
#include "launcher/scheduler/lsf.h"
#include "launcher/scheduler/mpi.h"
#include "launcher/scheduler/pbs.h"
#include "launcher/scheduler/slurm.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

/// Without regard to a ddprun or torchrun around this process.
std::optional<Allocation> outer_allocation(const Environment& environment,
                                           const ReadFile& read_file,
                                           const std::function<std::string()>& full_host_name) {
  // One batch system holds the node at a time. Its job is looked for first, since mpirun tells
  // neither its hosts nor a name.
  std::optional<BatchJob> job = slurm_job(environment);
  if (!job) {
    job = pbs_job(environment, read_file);
  }
  if (!job) {
    job = lsf_job(environment);
  }
  if (!srun_speaks_pmi(environment, read_file)) {
    if (auto mpi = mpi_allocation(environment, job)) {
      return mpi;
    }
  }
  // From here on the order of the documentation; each gives nothing outside of its own jobs.
  if (auto slurm = slurm_allocation(environment, read_file)) {
    return slurm;
  }
  if (auto pbs = pbs_allocation(environment, read_file)) {
    return pbs;
  }
  if (auto lsf = lsf_allocation(environment)) {
    return lsf;
  }
  return kubernetes_allocation(environment, full_host_name);
}

/// A job that a worker submitted, with the worker's environment, looks like a worker, too. So it is
/// told what is not taken.
Allocation of_worker(const Allocation& outer, int agents) {
  Allocation alone{.launcher = outer.launcher, .agents = Told<int>{1, env::kRunId}};
  // The GPUs of the allocation are at work for the other job.
  alone.computes_here = false;
  alone.advice = std::string(env::kRunId) + ": it says that a worker of another job has started " +
                 "ddprun, so the program runs by itself, and not as one of the " +
                 std::to_string(agents) + " agents that " + outer.agents->variable +
                 " tells of; unset it, or give --nnodes 1";
  return alone;
}

}  // namespace

std::optional<Allocation> find_allocation(const Environment& environment, const ReadFile& read_file,
                                          const std::function<std::string()>& full_host_name) {
  auto outer = outer_allocation(environment, read_file, full_host_name);
  if (!told_text(environment, env::kRunId)) {
    return outer;
  }
  // Of a single process, and of what cannot be read, nothing would have been taken either.
  const int agents = outer && outer->agents ? outer->agents->value : 0;
  return agents > 1 ? std::optional(of_worker(*outer, agents)) : std::nullopt;
}

}  // namespace ddprun
