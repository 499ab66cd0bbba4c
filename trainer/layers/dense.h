// Dense layer with the weights as torch.nn.Linear has them, made of products (product.h). linear.h
// is the one whose weights lie the other way round. Real: what activations are made of (layers.h).
//
// Letters: N samples, F features, K outputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/host_device.h"
#include "trainer/layers/product.h"

namespace ddp {

struct DenseShape {
  std::int64_t features = 0;  ///< F
  std::int64_t outputs = 0;   ///< K
};

/// y (N, K) = x (N, F) times weight (K, F) transposed, plus bias (K).
void dense_forward(const DenseShape& shape, std::int64_t batch, const float* x, const float* weight,
                   const float* bias, float* y, int device = 0);

template <class Real>
struct DenseBackwardOf {
  const Real* x = nullptr;       ///< (N, F)
  const Real* weight = nullptr;  ///< (K, F)
  const Real* d_y = nullptr;     ///< (N, K)
  float* d_weight = nullptr;     ///< (K, F), added to
  float* d_bias = nullptr;       ///< (K), added to
  Real* d_x = nullptr;           ///< (N, F), overwritten
};
using DenseBackward = DenseBackwardOf<float>;
void dense_backward(const DenseShape& shape, std::int64_t batch, const DenseBackward& pass,
                    int device = 0);

/// y (N, K) = x (N, F) weight^T + bias
template <class Real>
DDP_ARITHMETIC ProductOf<Real> dense_product(const DenseShape& shape, std::int64_t batch,
                                             const Real* x, const Real* weight, const Real* bias,
                                             Real* y) {
  const auto features = static_cast<std::size_t>(shape.features);
  const auto outputs = static_cast<std::size_t>(shape.outputs);
  return {.m = static_cast<std::size_t>(batch),
          .n = outputs,
          .k = features,
          .a = {x, features},
          .b = {weight, features, true},
          .out = y,
          .out_stride = outputs,
          .bias = bias};
}

/// d_weight (K, F) += d_y^T x: a parameter's gradient may come from several passes.
template <class Real>
DDP_ARITHMETIC ProductOf<Real, float> dense_weight_gradient_product(
    const DenseShape& shape, std::int64_t batch, const DenseBackwardOf<Real>& pass) {
  const auto features = static_cast<std::size_t>(shape.features);
  const auto outputs = static_cast<std::size_t>(shape.outputs);
  return {.m = outputs,
          .n = features,
          .k = static_cast<std::size_t>(batch),
          .a = {pass.d_y, outputs, true},
          .b = {pass.x, features},
          .out = pass.d_weight,
          .out_stride = features,
          .add = true};
}

/// d_x (N, F) = d_y weight
template <class Real>
DDP_ARITHMETIC ProductOf<Real> dense_input_gradient_product(const DenseShape& shape,
                                                            std::int64_t batch,
                                                            const DenseBackwardOf<Real>& pass) {
  const auto features = static_cast<std::size_t>(shape.features);
  const auto outputs = static_cast<std::size_t>(shape.outputs);
  return {.m = static_cast<std::size_t>(batch),
          .n = features,
          .k = outputs,
          .a = {pass.d_y, outputs},
          .b = {pass.weight, features},
          .out = pass.d_x,
          .out_stride = features};
}

}  // namespace ddp
