// Layer norm: each row to mean 0 and variance 1, then weight and bias (Ba, Kiros, Hinton 2016). The
// sum of the residual stream that comes before it is made in the same pass. Letters: R = B T rows,
// C channels.
#pragma once

#include <cstddef>

namespace ddp {

/// GPT-2's layer_norm_epsilon.
inline constexpr float kLayerNormEpsilon = 1e-5F;

struct LayerNormForward {
  const float* input = nullptr;     ///< (R, C)
  const float* addition = nullptr;  ///< (R, C), or null: added to the input before all else
  float* sum = nullptr;             ///< (R, C): input + addition; unused without an addition
  const float* weight = nullptr;    ///< (C)
  const float* bias = nullptr;      ///< (C)
  float* out = nullptr;             ///< (R, C)
  float* mean = nullptr;            ///< (R), for the backward pass
  float* scale = nullptr;           ///< (R), 1 / standard deviation, for the backward pass
  std::size_t rows = 0, channels = 0;
};

struct LayerNormBackward {
  const float* d_out = nullptr;   ///< (R, C)
  const float* input = nullptr;   ///< (R, C): what was normalised, so the sum where there was one
  const float* weight = nullptr;  ///< (C)
  const float* mean = nullptr;    ///< (R)
  const float* scale = nullptr;   ///< (R)
  float* d_input = nullptr;       ///< (R, C): the gradient of the residual stream
  bool add = true;                ///< to d_input, in place of overwriting it
  float* d_weight = nullptr;      ///< (C), added to
  float* d_bias = nullptr;        ///< (C), added to
  std::size_t rows = 0, channels = 0;
};

}  // namespace ddp
