// Embedding: each token's vector plus its position's. Letters: B sequences of T tokens, C channels,
// V tokens in the vocabulary. Real: what activations are made of (layers.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp {

template <class Real>
struct EmbeddingForwardOf {
  const std::int32_t* tokens = nullptr;   ///< (B, T), each in [0, V)
  const Real* token_weight = nullptr;     ///< (V, C)
  const Real* position_weight = nullptr;  ///< (at least T, C)
  Real* out = nullptr;                    ///< (B, T, C)
  std::size_t batch = 0, time = 0, channels = 0;
};

template <class Real>
struct EmbeddingBackwardOf {
  const std::int32_t* tokens = nullptr;  ///< (B, T)
  const Real* d_out = nullptr;           ///< (B, T, C)
  float* d_token_weight = nullptr;       ///< (V, C), added to in the order of the tokens
  float* d_position_weight = nullptr;    ///< (at least T, C), added to
  std::size_t batch = 0, time = 0, channels = 0;
  std::size_t vocabulary = 0;  ///< V; only GPUs look at it
};

using EmbeddingForward = EmbeddingForwardOf<float>;
using EmbeddingBackward = EmbeddingBackwardOf<float>;

}  // namespace ddp
