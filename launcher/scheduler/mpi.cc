#include "launcher/scheduler/mpi.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// The variables of one launcher.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_size;
  const char* job;  ///< a name that no other run on the same hosts has
};

constexpr Names kLaunchers[] = {
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    // Where Hydra listens (with -pmi-port) is its own for each run; it gives no other name.
    {"mpiexec of MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_PORT"},
};

/// Its name has the batch job's, so that several runs in one job do not meet.
void name_job(const Environment& environment, const Names& names,
              const std::optional<BatchJob>& around, Allocation& found) {
  // Without a batch job around it the launcher's own name has to do, if it gives one.
  const auto run = told_text(environment, names.job);
  if (around) {
    found.job_id = around->id;
  }
  if (run) {
    std::string name = around ? around->id.value + "." + *run : *run;
    // It becomes part of a directory's name.
    std::replace(name.begin(), name.end(), '/', '-');
    found.job_id = {std::move(name),
                    (around ? around->id.variable + ", " : std::string()) + names.job};
  }
  found.port = around && !run ? derived_port(around->number, around->part)
                              : derived_port(found.job_id.value);
}

Result<Told<std::string>> meeting_host(const Names& names, int here, int size,
                                       const std::optional<BatchJob>& around, bool is_named) {
  // Two runs of one machine would meet.
  if (!is_named && size > 1) {
    return Error{std::string(names.launcher) + " gives its processes no name for their run",
                 names.size, "give --rdzv-endpoint HOST:PORT, with a port of this run's own"};
  }
  if (here == size) {
    return Told<std::string>{"127.0.0.1", names.local_size};
  }
  if (around) {
    return around->first_host;
  }
  return Error{std::string(names.launcher) + " started " + std::to_string(size) +
                   " agents on several hosts and does not tell which",
               names.size, "give --rdzv-endpoint HOST:PORT, with one of these hosts"};
}

}  // namespace

std::optional<Allocation> mpi_allocation(const Environment& environment,
                                         const std::optional<BatchJob>& around) {
  for (const Names& names : kLaunchers) {
    const auto rank = told_number(environment, names.rank);
    const auto size = told_number(environment, names.size);
    if (!rank || !size || *rank >= *size) {
      continue;  // left over, or set by hand for the order of the nodes only
    }
    Allocation found{.launcher = names.launcher, .agents = Told<int>{*size, names.size}};
    const int told = told_number(environment, names.local_size).value_or(1);
    found.agents_here = std::clamp(told, 1, *size);
    DDP_CHECK(found.agents_here >= 1, "this process is one of them");
    found.hosts = found.agents_here == *size ? 1 : 2;  // or more: it is not told
    name_job(environment, names, around, found);
    found.meeting_host =
        meeting_host(names, found.agents_here, *size, around, !found.job_id.value.empty());
    return found;
  }
  return std::nullopt;
}

}  // namespace ddprun
