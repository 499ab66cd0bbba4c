// The all-reduce of large tensors between two ranks, over the star's connection: one thread sends,
// receives and adds, each as far as it can, so that no other thread has to be woken for a piece. On
// one host, where both ranks share the processors, that is what counts.
#pragma once

#include "worker_runtime/collectives/collective_run.h"

namespace ddp {

/// In a world of two. Blocking; throws what the star throws. The bits are those of
/// exchange_all_reduce().
void pair_all_reduce(const CollectiveRun& run);

}  // namespace ddp
