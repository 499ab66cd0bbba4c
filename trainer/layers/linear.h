// Linear layer: out = x W + b, forward and backward, made of products (product.h). W lies as (I,
// O), which is GPT-2's Conv1D. Letters: R = B T rows, I inputs, O outputs.
#pragma once

#include <cstddef>

#include "trainer/layers/product.h"

namespace ddp {

struct LinearForward {
  const float* input = nullptr;   ///< (R, I)
  const float* weight = nullptr;  ///< (I, O)
  const float* bias = nullptr;    ///< (O)
  float* out = nullptr;           ///< (R, O)
  float* activated = nullptr;     ///< (R, O), or null: gelu(out)
  std::size_t rows = 0, inputs = 0, outputs = 0;
};

struct LinearBackward {
  const float* d_out = nullptr;   ///< (R, O)
  const float* input = nullptr;   ///< (R, I)
  const float* weight = nullptr;  ///< (I, O)
  /// (R, I), or null: the input was gelu of this; d_input is then the gradient by it.
  const float* before_gelu = nullptr;
  float* d_input = nullptr;   ///< (R, I), overwritten
  float* d_weight = nullptr;  ///< (I, O), added to
  float* d_bias = nullptr;    ///< (O), added to
  std::size_t rows = 0, inputs = 0, outputs = 0;
};

}  // namespace ddp
