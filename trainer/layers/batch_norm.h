// Batch normalisation (Ioffe and Szegedy 2015), with what follows it in a ResNet in the same pass:
// the residual's sum and ReLU. f32 on the CPU; M rows (images x pixels) of C channels.
//
//     y = relu(gamma (x - mean) / sqrt(variance + epsilon) + beta + residual)
//
// Mean and variance are of this rank's batch, as in PyTorch without SyncBatchNorm. Sums run over
// fixed chunks of rows, so equal inputs give equal bits with any number of threads.
#pragma once

#include <cstdint>

namespace ddp {

inline constexpr float kNormEpsilon = 1e-5F;  ///< PyTorch's
inline constexpr float kNormMomentum = 0.1F;  ///< PyTorch's: the share of the newest batch

struct NormShape {
  std::int64_t rows = 0;      ///< M, at least 1
  std::int64_t channels = 0;  ///< C
};

struct NormForward {
  const float* x = nullptr;         ///< (M, C)
  const float* gamma = nullptr;     ///< (C)
  const float* beta = nullptr;      ///< (C)
  const float* residual = nullptr;  ///< (M, C), or null for none
  bool relu = true;
  float* running_mean = nullptr;       ///< (C)
  float* running_variance = nullptr;   ///< (C), unbiased
  float* mean = nullptr;               ///< (C), written for backward; not used by norm_infer()
  float* inverse_deviation = nullptr;  ///< (C), likewise
  float* y = nullptr;                  ///< (M, C)
};

/// With the statistics of the batch, which move the running ones.
void norm_forward(const NormShape& shape, const NormForward& pass);
/// With the running statistics.
void norm_infer(const NormShape& shape, const NormForward& pass);

struct NormBackward {
  const float* x = nullptr;                  ///< (M, C), what forward had
  const float* y = nullptr;                  ///< (M, C), what forward wrote; null without ReLU
  const float* gamma = nullptr;              ///< (C)
  const float* mean = nullptr;               ///< (C)
  const float* inverse_deviation = nullptr;  ///< (C)
  /// (M, C). Becomes the gradient behind ReLU, which is the residual's too.
  float* d_y = nullptr;
  float* d_gamma = nullptr;  ///< (C), added to
  float* d_beta = nullptr;   ///< (C), added to
  float* d_x = nullptr;      ///< (M, C); another memory than d_y
};

void norm_backward(const NormShape& shape, const NormBackward& pass);

}  // namespace ddp
