// How many threads one rank computes with.
#pragma once

#include "ddp/ddp.h"

namespace ddp {

/// The processors that this rank may use, shared by the workers of its node; at least 1. Pure.
int threads_of_rank(int processors, int local_world_size);

/// Makes the products of this process take that many threads, by the affinity of this process
/// (sched_getaffinity(2)). OMP_NUM_THREADS wins when it is set, as users of torchrun expect;
/// ddprun, as torchrun does, sets it to 1 where a node has several workers and it was not set.
/// Gives these threads their alternate signal stacks (trainer/alternate_stack.h).
void choose_threads(const Context& context);

}  // namespace ddp
