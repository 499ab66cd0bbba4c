// Embedding: each token's vector plus its position's. Letters: B sequences of T tokens, C channels,
// V tokens in the vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp {

struct EmbeddingForward {
  const std::int32_t* tokens = nullptr;    ///< (B, T), each in [0, V)
  const float* token_weight = nullptr;     ///< (V, C)
  const float* position_weight = nullptr;  ///< (at least T, C)
  float* out = nullptr;                    ///< (B, T, C)
  std::size_t batch = 0, time = 0, channels = 0;
};

struct EmbeddingBackward {
  const std::int32_t* tokens = nullptr;  ///< (B, T)
  const float* d_out = nullptr;          ///< (B, T, C)
  float* d_token_weight = nullptr;       ///< (V, C), added to in the order of the tokens
  float* d_position_weight = nullptr;    ///< (at least T, C), added to
  std::size_t batch = 0, time = 0, channels = 0;
};

}  // namespace ddp
