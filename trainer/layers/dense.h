// Dense layer with the weights as torch.nn.Linear has them, made of products (product.h). linear.h
// is the one whose weights lie the other way round. Real: what activations are made of (layers.h).
//
// Letters: N samples, F features, K outputs.
#pragma once

#include <cstdint>

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

}  // namespace ddp
