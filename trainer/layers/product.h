// Product of two matrices, with what comes right after it done while the result is still in the
// cache. Letters: out (M, N) = a (M, K) b (K, N). All row by row, rows `stride` elements apart.
#pragma once

#include <cstddef>

namespace ddp {

/// A matrix as it lies in memory; `transposed`: the factor is its transpose.
template <class Real>
struct FactorOf {
  const Real* data = nullptr;
  std::size_t stride = 0;
  bool transposed = false;
};

/// Real: what activations are made of (layers.h). Out: what the result is made of. Gradients of
/// weights are floats in any case, and have no epilogue.
template <class Real, class Out = Real>
struct ProductOf {
  std::size_t m = 0, n = 0, k = 0;  ///< k at least 1
  FactorOf<Real> a;                 ///< (M, K); transposed: lies as (K, M)
  FactorOf<Real> b;                 ///< (K, N); transposed: lies as (N, K)
  Out* out = nullptr;               ///< (M, N)
  std::size_t out_stride = 0;
  bool add = false;  ///< to what is in `out`, in place of overwriting it

  // The epilogue. Each may be null; their rows are out_stride apart as well.
  const Real* bias = nullptr;     ///< (N), added to each row
  Real* activated = nullptr;      ///< (M, N): gelu(out)
  const Real* gelu_at = nullptr;  ///< (M, N): out is multiplied by gelu's slope there
};

using Product = ProductOf<float>;

}  // namespace ddp
