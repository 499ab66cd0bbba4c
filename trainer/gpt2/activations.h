// The memory of a GPT-2's forward and backward pass: one allocation, made once. Letters as in
// trainer/layers: B sequences, T positions, C channels, H heads, V tokens (Vp: padded to whole
// vectors; on GPUs padded_vocabulary()). Real: what activations are made of
// (trainer/layers/layers.h).
#pragma once

#include <vector>

#include "ddp/tensor.h"
#include "trainer/gpt2/config.h"

namespace ddp {

/// What the backward pass needs of one layer.
template <class Real>
struct LayerActivationsOf {
  Real* ln_1 = nullptr;             ///< (B, T, C)
  float* ln_1_mean = nullptr;       ///< (B, T)
  float* ln_1_scale = nullptr;      ///< (B, T)
  Real* qkv = nullptr;              ///< (B, T, 3 C)
  float* log_sum = nullptr;         ///< (B, H, T)
  Real* attention = nullptr;        ///< (B, T, C)
  Real* residual_middle = nullptr;  ///< (B, T, C): after attention
  Real* ln_2 = nullptr;             ///< (B, T, C)
  float* ln_2_mean = nullptr;       ///< (B, T)
  float* ln_2_scale = nullptr;      ///< (B, T)
  Real* fc = nullptr;               ///< (B, T, 4 C): before GELU
  Real* fc_gelu = nullptr;          ///< (B, T, 4 C)
  Real* residual = nullptr;         ///< (B, T, C): after the layer
};

template <class Real>
class ActivationsOf {
 public:
  /// For up to `batch` sequences of up to `time` tokens. Throws what Tensor::empty does.
  ActivationsOf(const Gpt2Config& config, std::size_t batch, std::size_t time, Device device = {});

  Real* embedded = nullptr;  ///< (B, T, C): the residual stream before the first layer
  std::vector<LayerActivationsOf<Real>> layers;
  Real* projection = nullptr;   ///< (B, T, C): what a layer's half adds to the residual stream
  Real* ln_f = nullptr;         ///< (B, T, C)
  float* ln_f_mean = nullptr;   ///< (B, T)
  float* ln_f_scale = nullptr;  ///< (B, T)
  Real* logits = nullptr;       ///< (B, T, Vp)

  // The backward pass: each is the gradient of what it is named after.
  Real* d_residual = nullptr;  ///< (B, T, C)
  Real* d_narrow = nullptr;    ///< (B, T, C): of attention or of a layer norm's result
  Real* d_wide = nullptr;      ///< (B, T, 4 C): of fc or of qkv

  float* attention_scratch = nullptr;  ///< attention_scratch(T, C / H) for each thread; on the CPU

  std::size_t attention_scratches = 0;
  std::size_t batch_max, time_max;
  std::size_t vocabulary_padded;  ///< Vp

  /// The first (V) logits.
  [[nodiscard]] Tensor logit_row(std::size_t vocabulary) const {
    return memory_.view(static_cast<std::size_t>(logits - memory_.data<Real>()), vocabulary);
  }

 private:
  Tensor memory_;      // of Reals
  Tensor statistics_;  // of floats
};

}  // namespace ddp
