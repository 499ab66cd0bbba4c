// MPI: what an MPI launcher says to the processes that it starts: Open MPI's mpirun (OMPI_*), the
// Hydra of MPICH and Intel MPI (PMI_*), and any that speaks PMIx (PMIX_RANK). Pure.
//
// They tell how many processes there are, and not on which hosts: those are told by the batch job
// around them, where there is one.
#pragma once

#include <optional>

#include "launcher/scheduler/allocation.h"

namespace ddprun {

/// `around`: the batch job that the launcher runs in. None without a launcher of MPI.
std::optional<Allocation> mpi_allocation(const Environment& environment,
                                         const std::optional<BatchJob>& around);

}  // namespace ddprun
