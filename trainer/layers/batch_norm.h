// Batch normalisation (Ioffe and Szegedy 2015), with what follows it in a ResNet in the same pass:
// the residual's sum and ReLU. M rows (images x pixels) of C channels. Real: what activations are
// made of (layers.h); statistics are floats.
//
//     y = relu(gamma (x - mean) / sqrt(variance + epsilon) + beta + residual)
//
// Mean and variance are of this rank's batch, as in PyTorch without SyncBatchNorm. Sums run over
// fixed chunks of rows, so equal inputs give equal bits with any number of threads.
#pragma once

#include <cstdint>

#include "trainer/host_device.h"

namespace ddp {

inline constexpr float kNormEpsilon = 1e-5F;  ///< PyTorch's
inline constexpr float kNormMomentum = 0.1F;  ///< PyTorch's: the share of the newest batch

struct NormShape {
  std::int64_t rows = 0;      ///< M, at least 1
  std::int64_t channels = 0;  ///< C
};

template <class Real>
struct NormForwardOf {
  const Real* x = nullptr;         ///< (M, C)
  const float* gamma = nullptr;    ///< (C)
  const float* beta = nullptr;     ///< (C)
  const Real* residual = nullptr;  ///< (M, C), or null for none
  bool relu = true;
  float* running_mean = nullptr;       ///< (C)
  float* running_variance = nullptr;   ///< (C), unbiased
  float* mean = nullptr;               ///< (C), written for backward; not used by norm_infer()
  float* inverse_deviation = nullptr;  ///< (C), likewise
  Real* y = nullptr;                   ///< (M, C)
  /// (M, C / 8), or null. Given (BFloat16, a residual, C a multiple of 8): bit c % 8 of byte c /
  /// 8 is written as whether y is above 0. Backward then need not read y, which has 16 times the
  /// bytes.
  std::uint8_t* positive = nullptr;
};
using NormForward = NormForwardOf<float>;

/// With the statistics of the batch, which move the running ones.
void norm_forward(const NormShape& shape, const NormForward& pass, int device = 0);
/// With the running statistics.
void norm_infer(const NormShape& shape, const NormForward& pass, int device = 0);

template <class Real>
struct NormBackwardOf {
  const Real* x = nullptr;  ///< (M, C), what forward had
  /// (M, C), what forward wrote; null without ReLU. Not read with `beta` or `positive`.
  const Real* y = nullptr;
  const float* gamma = nullptr;              ///< (C)
  const float* mean = nullptr;               ///< (C)
  const float* inverse_deviation = nullptr;  ///< (C)
  /// (M, C). Becomes the gradient behind ReLU, which is the residual's too.
  Real* d_y = nullptr;
  float* d_gamma = nullptr;  ///< (C), added to
  float* d_beta = nullptr;   ///< (C), added to
  Real* d_x = nullptr;       ///< (M, C); another memory than d_y
  /// (M, C), or null: more of the gradient, of the other way that y has gone. Added to d_y first.
  const Real* d_more = nullptr;
  /// (C), or null. Given: there was a ReLU and no residual, so whether y was above 0 follows from
  /// x. A GPU then reads x alone, and writes d_y only where d_more is.
  const float* beta = nullptr;
  const std::uint8_t* positive = nullptr;  ///< (M, C / 8), or null: of forward, in place of `y`
};
using NormBackward = NormBackwardOf<float>;

void norm_backward(const NormShape& shape, const NormBackward& pass, int device = 0);

/// What is done to each value of a channel: y = scale x + offset. As one multiplication and one
/// addition, which forward and backward round alike.
struct NormLine {
  float scale;
  float offset;
};
DDP_ARITHMETIC NormLine norm_line(float gamma, float beta, float mean, float inverse_deviation) {
  const float scale = gamma * inverse_deviation;
  return {scale, beta - mean * scale};
}

}  // namespace ddp
