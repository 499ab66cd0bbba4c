// How many threads one rank computes with, and why.
#pragma once

#include <string>

#include "ddp/ddp.h"
#include "rendezvous/base/usable_cpus.h"

namespace ddp {

/// The processors that this rank may use, shared by the workers of its node; at least 1. Pure.
int threads_of_rank(int processors, int local_world_size);

/// "Threads: 2 (a CPU quota of 3.5 processors, shared by 2 workers)": what threads_of_rank() gave,
/// from where. Pure.
std::string threads_text(int threads, const ddprun::UsableCpus& usable, int local_world_size);

/// Makes the products of this process take that many threads, of the processors that it may use:
/// its affinity, cut by the CPU quota of its control group (usable_cpus.h). OMP_NUM_THREADS wins
/// when it is set, as users of torchrun expect; ddprun, as torchrun does, sets it to 1 where a node
/// has several workers and it was not set. Gives these threads their alternate signal stacks
/// (trainer/alternate_stack.h). Returns the line that says so.
std::string choose_threads(const Context& context);

/// What to say of memory that did not suffice for a training.
std::string no_memory();

/// On stdout by the first worker of each node, since nodes differ in what they may use.
void say_threads(const Context& context, const std::string& line);

}  // namespace ddp
