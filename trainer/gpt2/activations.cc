#include "trainer/gpt2/activations.h"

#include <utility>

#include "trainer/layers/alignment.h"
#include "trainer/layers/attention.h"
#include "trainer/layers/layers.h"

namespace ddp {
namespace {

/// Arrays by the places of their addresses, with the number of their elements.
template <class T>
using Arrays = std::vector<std::pair<T**, std::size_t>>;

/// Makes them parts of one allocation, each aligned for vectors.
template <class T>
Tensor place(const Arrays<T>& arrays, Device device) {
  // First how much, then where: the lists below are the only place that knows the sizes.
  std::size_t total = 0;
  for (const auto& [array, count] : arrays) {
    total += aligned_floats(count);
  }
  Tensor memory = Tensor::empty({static_cast<std::int64_t>(total)}, dtype_of<T>, device);
  std::size_t first = 0;
  for (const auto& [array, count] : arrays) {
    *array = memory.data<T>() + first;
    first += aligned_floats(count);
  }
  return memory;
}

}  // namespace

template <class Real>
ActivationsOf<Real>::ActivationsOf(const Gpt2Config& config, std::size_t batch, std::size_t time,
                                   Device device)
    : layers(config.layers),
      batch_max(batch),
      time_max(time),
      vocabulary_padded(device.is_cuda() ? padded_vocabulary(config)
                                         : aligned_floats(config.vocabulary)) {
  // Letters: rows is B T, narrow is B T C. Backward reuses three scratch arrays for the gradients
  // of all layers.
  const std::size_t rows = batch * time;
  const std::size_t narrow = rows * config.channels;
  Arrays<Real> arrays = {
      {&embedded, narrow},   {&projection, narrow},
      {&ln_f, narrow},       {&logits, rows * vocabulary_padded},
      {&d_residual, narrow}, {&d_narrow, narrow},
      {&d_wide, 4 * narrow},
  };
  Arrays<float> statistics = {{&ln_f_mean, rows}, {&ln_f_scale, rows}};
  if (device.is_cpu()) {
    // A GPU's attention has its tiles in shared memory.
    attention_scratches = cpu_layer_threads();
    statistics.emplace_back(
        &attention_scratch,
        attention_scratches * ddp::attention_scratch(time, config.channels / config.heads));
  }
  for (LayerActivationsOf<Real>& layer : layers) {
    arrays.insert(arrays.end(), {{&layer.ln_1, narrow},
                                 {&layer.qkv, 3 * narrow},
                                 {&layer.attention, narrow},
                                 {&layer.residual_middle, narrow},
                                 {&layer.ln_2, narrow},
                                 {&layer.fc, 4 * narrow},
                                 {&layer.fc_gelu, 4 * narrow},
                                 {&layer.residual, narrow}});
    statistics.insert(statistics.end(), {{&layer.ln_1_mean, rows},
                                         {&layer.ln_1_scale, rows},
                                         {&layer.log_sum, rows * config.heads},
                                         {&layer.ln_2_mean, rows},
                                         {&layer.ln_2_scale, rows}});
  }
  memory_ = place(arrays, device);
  statistics_ = place(statistics, device);
}

template class ActivationsOf<float>;
template class ActivationsOf<BFloat16>;

}  // namespace ddp
