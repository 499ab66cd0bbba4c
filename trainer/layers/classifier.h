// The end of a classifier: a dense layer from features to one score per class, and the
// cross-entropy of its softmax. f32 on the CPU, products by oneDNN.
//
// Letters: N samples, F features, K classes.
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

struct ClassLoss {
  double sum = 0;            ///< of -log softmax(scores)[label] over the samples, natural logarithm
  std::int64_t correct = 0;  ///< samples whose label has the largest score (the first of equals)
};

/// `labels` (N), each in [0, K). `d_scores` (N, K) receives the gradient of the SUM; null: none.
ClassLoss class_loss(std::int64_t classes, std::int64_t batch, const float* scores,
                     const std::int64_t* labels, float* d_scores);

}  // namespace ddp
