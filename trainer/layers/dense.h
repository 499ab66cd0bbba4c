// Dense layer with the weights as torch.nn.Linear has them, on the CPU, made of products
// (product.h). linear.h is the one whose weights lie the other way round.
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
                   const float* bias, float* y);

struct DenseBackward {
  const float* x = nullptr;       ///< (N, F)
  const float* weight = nullptr;  ///< (K, F)
  const float* d_y = nullptr;     ///< (N, K)
  float* d_weight = nullptr;      ///< (K, F), added to
  float* d_bias = nullptr;        ///< (K), added to
  float* d_x = nullptr;           ///< (N, F), overwritten
};
void dense_backward(const DenseShape& shape, std::int64_t batch, const DenseBackward& pass);

}  // namespace ddp
