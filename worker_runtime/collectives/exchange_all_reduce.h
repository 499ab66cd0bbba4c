// The all-reduce of tensors that are too large for the star: each rank reduces a chunk of its own
// and hands it round, as a ring does in 2 (n - 1) steps, here in two and piece by piece. A rank
// sends and receives 2 (n - 1) / n times the tensor, which is the least possible (Patarasuk and
// Yuan, 2009).
#pragma once

#include "worker_runtime/collectives/collective_run.h"

namespace ddp {

/// Blocking; throws what Gloo throws. Each element is reduced in rank order, whatever the size of
/// the tensor and the place of the element in it: reduce_parts()'s bits.
void exchange_all_reduce(const CollectiveRun& run);

}  // namespace ddp
