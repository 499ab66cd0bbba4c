#include "trainer/layers/layer_norm.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/column_sums.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// One warp for each row: its sums need no barrier of the block.
template <class Real>
__global__ void forward_kernel(LayerNormForwardOf<Real> pass) {
  const std::size_t row = warp_row();
  if (row >= pass.rows) {
    return;
  }
  const std::size_t channels = pass.channels;
  const auto count = static_cast<float>(channels);
  const Real* input = pass.input + row * channels;
  float sum = 0;
  if (pass.addition != nullptr) {
    const Real* addition = pass.addition + row * channels;
    Real* total = pass.sum + row * channels;
    for (std::size_t c = lane_index(); c < channels; c += kWarpSize) {
      // As rounded: it is what the backward pass will read.
      total[c] = rounded<Real>(widened(input[c]) + widened(addition[c]));
      sum += widened(total[c]);
    }
    input = total;
  } else {
    for (std::size_t c = lane_index(); c < channels; c += kWarpSize) {
      sum += widened(input[c]);
    }
  }
  const float mean = warp_sum(sum) / count;
  // In a second pass over the row, which is still in the cache: mean of squares less square of the
  // mean loses what is small beside the mean. Each lane reads what it has written itself.
  float squares = 0;
  for (std::size_t c = lane_index(); c < channels; c += kWarpSize) {
    const float off = widened(input[c]) - mean;
    squares += off * off;
  }
  const float scale = 1.0F / sqrtf(warp_sum(squares) / count + kLayerNormEpsilon);
  Real* out = pass.out + row * channels;
  for (std::size_t c = lane_index(); c < channels; c += kWarpSize) {
    out[c] = rounded<Real>((widened(input[c]) - mean) * scale * widened(pass.weight[c]) +
                           widened(pass.bias[c]));
  }
  if (lane_index() == 0) {
    pass.mean[row] = mean;
    pass.scale[row] = scale;
  }
}

/// With n = (x - mean) scale and g = d_out weight: dx = scale (g - mean(g) - n mean(g n)).
template <class Real>
__global__ void input_kernel(LayerNormBackwardOf<Real> pass) {
  const std::size_t row = warp_row();
  if (row >= pass.rows) {
    return;
  }
  const std::size_t channels = pass.channels;
  const auto count = static_cast<float>(channels);
  const Real* d_out = pass.d_out + row * channels;
  const Real* input = pass.input + row * channels;
  const float mean = pass.mean[row];
  const float scale = pass.scale[row];
  float sum = 0;
  float sum_with_norm = 0;
  for (std::size_t c = lane_index(); c < channels; c += kWarpSize) {
    const float gradient = widened(d_out[c]) * widened(pass.weight[c]);
    sum += gradient;
    sum_with_norm += gradient * ((widened(input[c]) - mean) * scale);
  }
  const float mean_gradient = warp_sum(sum) / count;
  const float mean_with_norm = warp_sum(sum_with_norm) / count;
  Real* d_input = pass.d_input + row * channels;
  for (std::size_t c = lane_index(); c < channels; c += kWarpSize) {
    const float norm = (widened(input[c]) - mean) * scale;
    const float gradient = widened(d_out[c]) * widened(pass.weight[c]);
    const float d_norm = scale * (gradient - mean_gradient - norm * mean_with_norm);
    d_input[c] = rounded<Real>(pass.add ? widened(d_input[c]) + d_norm : d_norm);
  }
}

/// What weight and bias get of one element.
template <class Real>
struct WeightTerms {
  LayerNormBackwardOf<Real> pass;
  __device__ Terms<2> operator()(std::size_t row, std::size_t c) const {
    const std::size_t at = row * pass.channels + c;
    const float d_out = widened(pass.d_out[at]);
    return {{d_out * (widened(pass.input[at]) - pass.mean[row]) * pass.scale[row], d_out}};
  }
};

}  // namespace

template <class Real>
void layer_norm_forward(const LayerNormForwardOf<Real>& pass, int device) {
  launch(device, warp_for_each(pass.rows), forward_kernel<Real>, pass);
}

template <class Real>
void layer_norm_backward(const LayerNormBackwardOf<Real>& pass, int device) {
  // By row for the input, by column for the weights: each kernel reads along memory.
  launch(device, warp_for_each(pass.rows), input_kernel<Real>, pass);
  add_column_sums(device, WeightTerms<Real>{pass}, pass.rows, pass.channels,
                  Targets<2>{{pass.d_weight, pass.d_bias}});
}

template void layer_norm_forward(const LayerNormForwardOf<float>&, int);
template void layer_norm_forward(const LayerNormForwardOf<BFloat16>&, int);
template void layer_norm_backward(const LayerNormBackwardOf<float>&, int);
template void layer_norm_backward(const LayerNormBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
