#include "launcher/scheduler/scheduler.h"

#include "launcher/scheduler/kubernetes.h"
#include "launcher/scheduler/lsf.h"
#include "launcher/scheduler/mpi.h"
#include "launcher/scheduler/pbs.h"
#include "launcher/scheduler/slurm.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {

std::optional<Allocation> find_allocation(const Environment& environment, const ReadFile& read_file,
                                          const std::function<std::string()>& full_host_name) {
  // A worker inherits the variables of the scheduler that started its agent: they speak of that
  // job.
  if (told_text(environment, env::kRunId)) {
    return std::nullopt;
  }
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

}  // namespace ddprun
