// Reductions of whole tensors in memory, in the order of ranks. Pure.
#pragma once

#include <cstddef>
#include <span>

#include "ddp/process_group.h"
#include "ddp/tensor.h"

namespace ddp {

/// out[i] = parts[0][i] op parts[1][i] op ..., from left to right, `count` elements of `dtype`
/// each. So the bits of a sum depend on the order of `parts` alone, and not on where an element
/// lies or how the work is cut up. `out` may be one of the parts. avg is the sum divided by the
/// number of parts (integers: towards zero). bf16 is summed in f32 and rounded once, at the end.
/// Needs at least one part.
void reduce_parts(DType dtype, ReduceOp op, void* out, std::span<const void* const> parts,
                  std::size_t count);

}  // namespace ddp
