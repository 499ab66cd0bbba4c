// Layer norm: each row to mean 0 and variance 1, then weight and bias (Ba, Kiros, Hinton 2016). The
// sum of the residual stream that comes before it is made in the same pass. Letters: R = B T rows,
// C channels. Real: what activations are made of (layers.h).
#pragma once

#include <cstddef>

namespace ddp {

/// GPT-2's layer_norm_epsilon.
inline constexpr float kLayerNormEpsilon = 1e-5F;

template <class Real>
struct LayerNormForwardOf {
  const Real* input = nullptr;     ///< (R, C)
  const Real* addition = nullptr;  ///< (R, C), or null: added to the input before all else
  Real* sum = nullptr;             ///< (R, C): input + addition; unused without an addition
  const Real* weight = nullptr;    ///< (C)
  const Real* bias = nullptr;      ///< (C)
  Real* out = nullptr;             ///< (R, C)
  float* mean = nullptr;           ///< (R), for the backward pass
  float* scale = nullptr;          ///< (R), 1 / standard deviation, for the backward pass
  std::size_t rows = 0, channels = 0;
};

template <class Real>
struct LayerNormBackwardOf {
  const Real* d_out = nullptr;   ///< (R, C)
  const Real* input = nullptr;   ///< (R, C): what was normalised, so the sum where there was one
  const Real* weight = nullptr;  ///< (C)
  const float* mean = nullptr;   ///< (R)
  const float* scale = nullptr;  ///< (R)
  Real* d_input = nullptr;       ///< (R, C): the gradient of the residual stream
  bool add = true;               ///< to d_input, in place of overwriting it
  float* d_weight = nullptr;     ///< (C), added to
  float* d_bias = nullptr;       ///< (C), added to
  std::size_t rows = 0, channels = 0;
  /// (C), or null: the sum of d_input over the rows is added to it. The layer whose result went
  /// into the stream has it as the gradient of its bias.
  float* d_input_sum = nullptr;
};

using LayerNormForward = LayerNormForwardOf<float>;
using LayerNormBackward = LayerNormBackwardOf<float>;

}  // namespace ddp
