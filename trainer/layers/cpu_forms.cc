#include "trainer/layers/cpu_forms.h"

namespace ddp::DDP_LEVEL {

/// Floats stay what they are.
void round(const float* from, float* to, std::size_t count, int /*device*/) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = from[i];
  }
}

const Layers kLayers{embedding_forward,
                     embedding_backward,
                     layer_norm_forward,
                     layer_norm_backward,
                     product,
                     product,
                     linear_forward,
                     linear_backward,
                     attention_forward,
                     attention_backward,
                     cross_entropy,
                     round,
                     adamw_update,
                     sums_of_squares,
                     winograd_forward,
                     winograd_weights};

const Layers kBf16Layers = [] {
  Layers layers = kLayers;
  layers.product = bf16_product;
  layers.gradient_product = bf16_product;
  layers.linear_forward = bf16_linear_forward;
  layers.linear_backward = bf16_linear_backward;
  return layers;
}();

}  // namespace ddp::DDP_LEVEL
