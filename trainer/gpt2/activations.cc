#include "trainer/gpt2/activations.h"

#include <utility>

#include "trainer/layers/alignment.h"
#include "trainer/layers/attention.h"

namespace ddp {
Activations::Activations(const Gpt2Config& config, std::size_t batch, std::size_t time,
                         Device device)
    : layers(config.layers),
      batch_max(batch),
      time_max(time),
      vocabulary_padded(aligned_floats(config.vocabulary)) {
  // All arrays are parts of one allocation, each aligned for vectors. Letters: rows is B T, narrow
  // is B T C. Backward reuses three scratch arrays for the gradients of all layers.
  const std::size_t rows = batch * time;
  const std::size_t narrow = rows * config.channels;
  std::vector<std::pair<float**, std::size_t>> arrays = {
      {&embedded, narrow},
      {&projection, narrow},
      {&ln_f, narrow},
      {&ln_f_mean, rows},
      {&ln_f_scale, rows},
      {&logits, rows * vocabulary_padded},
      {&d_residual, narrow},
      {&d_narrow, narrow},
      {&d_wide, 4 * narrow},
      {&attention_scratch, ddp::attention_scratch(time, config.channels / config.heads)},
  };
  for (LayerActivations& layer : layers) {
    arrays.insert(arrays.end(), {{&layer.ln_1, narrow},
                                 {&layer.ln_1_mean, rows},
                                 {&layer.ln_1_scale, rows},
                                 {&layer.qkv, 3 * narrow},
                                 {&layer.log_sum, rows * config.heads},
                                 {&layer.attention, narrow},
                                 {&layer.residual_middle, narrow},
                                 {&layer.ln_2, narrow},
                                 {&layer.ln_2_mean, rows},
                                 {&layer.ln_2_scale, rows},
                                 {&layer.fc, 4 * narrow},
                                 {&layer.fc_gelu, 4 * narrow},
                                 {&layer.residual, narrow}});
  }
  // First how much, then where: the list above is the only place that knows the sizes.
  std::size_t total = 0;
  for (const auto& [array, count] : arrays) {
    total += aligned_floats(count);
  }
  memory_ = Tensor::empty({static_cast<std::int64_t>(total)}, DType::f32, device);
  std::size_t first = 0;
  for (const auto& [array, count] : arrays) {
    *array = memory_.data<float>() + first;
    first += aligned_floats(count);
  }
}

}  // namespace ddp
