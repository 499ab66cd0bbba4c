// Linear layer: out = x W + b, forward and backward, made of products (product.h). W lies as (I,
// O), which is GPT-2's Conv1D. Letters: R = B T rows, I inputs, O outputs. Real: what activations
// are made of (layers.h).
#pragma once

#include <cstddef>

#include "trainer/host_device.h"
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
  float* d_weight = nullptr;  ///< (I, O)
  float* d_bias = nullptr;    ///< (O), added to; or null, where who made d_out has added it
  std::size_t rows = 0, inputs = 0, outputs = 0;
  bool add = true;  ///< to d_weight, in place of overwriting it
};

/// out (R, O) = input W, and what follows it.
template <class Real>
DDP_ARITHMETIC ProductOf<Real> out_product(const LinearForwardOf<Real>& pass) {
  return {.m = pass.rows,
          .n = pass.outputs,
          .k = pass.inputs,
          .a = {pass.input, pass.inputs},
          .b = {pass.weight, pass.outputs},
          .out = pass.out,
          .out_stride = pass.outputs,
          .bias = pass.bias,
          .activated = pass.activated};
}

/// d_input (R, I) = d_out (R, O) W^T
template <class Real>
DDP_ARITHMETIC ProductOf<Real> input_gradient_product(const LinearBackwardOf<Real>& pass) {
  return {.m = pass.rows,
          .n = pass.inputs,
          .k = pass.outputs,
          .a = {pass.d_out, pass.outputs},
          .b = {pass.weight, pass.outputs, true},
          .out = pass.d_input,
          .out_stride = pass.inputs,
          .gelu_at = pass.before_gelu};
}

/// d_weight (I, O) = or += input^T d_out
template <class Real>
DDP_ARITHMETIC ProductOf<Real, float> weight_gradient_product(const LinearBackwardOf<Real>& pass) {
  return {.m = pass.inputs,
          .n = pass.outputs,
          .k = pass.rows,
          .a = {pass.input, pass.inputs, true},
          .b = {pass.d_out, pass.outputs},
          .out = pass.d_weight,
          .out_stride = pass.outputs,
          .add = pass.add};
}

using LinearForward = LinearForwardOf<float>;
using LinearBackward = LinearBackwardOf<float>;

}  // namespace ddp
