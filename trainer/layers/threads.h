// How many threads the layers of this process use: those of OpenMP, which oneDNN uses too.
#pragma once

namespace ddp {

/// Shares the processors that this process may use (its affinity) with the other workers of its
/// node, at least one each. OMP_NUM_THREADS, where it is set, stays what counts; ddprun sets it to
/// 1 for several workers, as torchrun does.
void share_processors(int local_world_size);

}  // namespace ddp
