// The memory of a GPT-2's forward and backward pass: one allocation, made once. Letters as in
// trainer/layers: B sequences, T positions, C channels, H heads, V tokens (Vp: padded to whole
// vectors).
#pragma once

#include <vector>

#include "ddp/tensor.h"
#include "trainer/gpt2/config.h"

namespace ddp {

/// What the backward pass needs of one layer.
struct LayerActivations {
  float* ln_1 = nullptr;             ///< (B, T, C)
  float* ln_1_mean = nullptr;        ///< (B, T)
  float* ln_1_scale = nullptr;       ///< (B, T)
  float* qkv = nullptr;              ///< (B, T, 3 C)
  float* log_sum = nullptr;          ///< (B, H, T)
  float* attention = nullptr;        ///< (B, T, C)
  float* residual_middle = nullptr;  ///< (B, T, C): after attention
  float* ln_2 = nullptr;             ///< (B, T, C)
  float* ln_2_mean = nullptr;        ///< (B, T)
  float* ln_2_scale = nullptr;       ///< (B, T)
  float* fc = nullptr;               ///< (B, T, 4 C): before GELU
  float* fc_gelu = nullptr;          ///< (B, T, 4 C)
  float* residual = nullptr;         ///< (B, T, C): after the layer
};

class Activations {
 public:
  /// For up to `batch` sequences of up to `time` tokens. Throws what Tensor::empty does.
  Activations(const Gpt2Config& config, std::size_t batch, std::size_t time, Device device = {});

  float* embedded = nullptr;  ///< (B, T, C): the residual stream before the first layer
  std::vector<LayerActivations> layers;
  float* projection = nullptr;  ///< (B, T, C): what a layer's half adds to the residual stream
  float* ln_f = nullptr;        ///< (B, T, C)
  float* ln_f_mean = nullptr;   ///< (B, T)
  float* ln_f_scale = nullptr;  ///< (B, T)
  float* logits = nullptr;      ///< (B, T, Vp)

  // The backward pass: each is the gradient of what it is named after.
  float* d_residual = nullptr;  ///< (B, T, C)
  float* d_narrow = nullptr;    ///< (B, T, C): of attention or of a layer norm's result
  float* d_wide = nullptr;      ///< (B, T, 4 C): of fc or of qkv

  float* attention_scratch = nullptr;  ///< attention_scratch(T, C / H)

  std::size_t batch_max, time_max;
  std::size_t vocabulary_padded;  ///< Vp

 private:
  Tensor memory_;
};

}  // namespace ddp
