#include "trainer/layers/embedding.h"

#include "trainer/layers/cpu_forms.h"

namespace ddp::DDP_LEVEL {

/// Row r is position r mod T of its sequence.
void embedding_forward(const EmbeddingForward& pass, int /*device*/) {
  const std::size_t channels = pass.channels;
  for (std::size_t row = 0; row < pass.batch * pass.time; ++row) {
    const float* token = pass.token_weight + static_cast<std::size_t>(pass.tokens[row]) * channels;
    const float* position = pass.position_weight + row % pass.time * channels;
    float* __restrict out = pass.out + row * channels;
    for (std::size_t c = 0; c < channels; ++c) {
      out[c] = token[c] + position[c];
    }
  }
}

/// A token that comes several times in the batch has the sum of its rows, in the order of the rows:
/// one thread, so equal inputs give equal bits.
void embedding_backward(const EmbeddingBackward& pass, int /*device*/) {
  const std::size_t channels = pass.channels;
  for (std::size_t row = 0; row < pass.batch * pass.time; ++row) {
    const float* d_out = pass.d_out + row * channels;
    float* __restrict d_token =
        pass.d_token_weight + static_cast<std::size_t>(pass.tokens[row]) * channels;
    float* __restrict d_position = pass.d_position_weight + row % pass.time * channels;
    for (std::size_t c = 0; c < channels; ++c) {
      d_token[c] += d_out[c];
      d_position[c] += d_out[c];
    }
  }
}

}  // namespace ddp::DDP_LEVEL
