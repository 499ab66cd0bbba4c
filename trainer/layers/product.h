// Product of two matrices, with what comes right after it done while the result is still in the
// cache. Letters: out (M, N) = a (M, K) b (K, N). All row by row, rows `stride` elements apart.
#pragma once

#include <cstddef>

namespace ddp {

/// A matrix as it lies in memory; `transposed`: the factor is its transpose.
struct Factor {
  const float* data = nullptr;
  std::size_t stride = 0;
  bool transposed = false;
};

struct Product {
  std::size_t m = 0, n = 0, k = 0;  ///< k at least 1
  Factor a;                         ///< (M, K); transposed: lies as (K, M)
  Factor b;                         ///< (K, N); transposed: lies as (N, K)
  float* out = nullptr;             ///< (M, N)
  std::size_t out_stride = 0;
  bool add = false;  ///< to what is in `out`, in place of overwriting it

  // The epilogue. Each may be null; their rows are out_stride apart as well.
  const float* bias = nullptr;     ///< (N), added to each row
  float* activated = nullptr;      ///< (M, N): gelu(out)
  const float* gelu_at = nullptr;  ///< (M, N): out is multiplied by gelu's slope there
};

}  // namespace ddp
