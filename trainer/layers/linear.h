// Linear layer: out = x W + b, forward and backward, made of products (product.h). W lies as (I,
// O), which is GPT-2's Conv1D. Letters: R = B T rows, I inputs, O outputs. Real: what activations
// are made of (layers.h).
#pragma once

#include <cstddef>

#include "trainer/layers/product.h"

namespace ddp {

template <class Real>
struct LinearForwardOf {
  const Real* input = nullptr;   ///< (R, I)
  const Real* weight = nullptr;  ///< (I, O)
  const Real* bias = nullptr;    ///< (O)
  Real* out = nullptr;           ///< (R, O)
  Real* activated = nullptr;     ///< (R, O), or null: gelu(out)
  std::size_t rows = 0, inputs = 0, outputs = 0;
};

template <class Real>
struct LinearBackwardOf {
  const Real* d_out = nullptr;   ///< (R, O)
  const Real* input = nullptr;   ///< (R, I)
  const Real* weight = nullptr;  ///< (I, O)
  /// (R, I), or null: the input was gelu of this; d_input is then the gradient by it.
  const Real* before_gelu = nullptr;
  Real* d_input = nullptr;    ///< (R, I), overwritten
  float* d_weight = nullptr;  ///< (I, O), added to
  float* d_bias = nullptr;    ///< (O), added to
  std::size_t rows = 0, inputs = 0, outputs = 0;
};

using LinearForward = LinearForwardOf<float>;
using LinearBackward = LinearBackwardOf<float>;

}  // namespace ddp
