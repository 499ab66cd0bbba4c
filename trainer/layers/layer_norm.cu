#include "trainer/layers/layer_norm.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/column_sums.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// One warp for each row: its sums need no barrier of the block. A lane has `width` channels, then
/// those a warp's width further on.
template <int width, class Real>
__global__ void forward_kernel(LayerNormForwardOf<Real> pass) {
  const std::size_t row = warp_row();
  if (row >= pass.rows) {
    return;
  }
  const std::size_t channels = pass.channels;
  const std::size_t first = static_cast<std::size_t>(lane_index()) * width;
  const auto count = static_cast<float>(channels);
  const Real* input = pass.input + row * channels;
  float sum = 0;
  if (pass.addition != nullptr) {
    const Real* addition = pass.addition + row * channels;
    Real* total = pass.sum + row * channels;
    for (std::size_t c = first; c < channels; c += kWarpSize * width) {
      auto x = load_pack<width>(input + c);
      const auto more = load_pack<width>(addition + c);
      for (int k = 0; k < width; ++k) {
        // As rounded: it is what the backward pass will read.
        x.of[k] = rounded<Real>(widened(x.of[k]) + widened(more.of[k]));
        sum += widened(x.of[k]);
      }
      store_pack(total + c, x);
    }
    input = total;
  } else {
    for (std::size_t c = first; c < channels; c += kWarpSize * width) {
      const auto x = load_pack<width>(input + c);
      for (int k = 0; k < width; ++k) {
        sum += widened(x.of[k]);
      }
    }
  }
  const float mean = warp_sum(sum) / count;
  // In a second pass over the row, which is still in the cache: mean of squares less square of the
  // mean loses what is small beside the mean. Each lane reads what it has written itself.
  float squares = 0;
  for (std::size_t c = first; c < channels; c += kWarpSize * width) {
    const auto x = load_pack<width>(input + c);
    for (int k = 0; k < width; ++k) {
      const float off = widened(x.of[k]) - mean;
      squares += off * off;
    }
  }
  const float scale = 1.0F / sqrtf(warp_sum(squares) / count + kLayerNormEpsilon);
  Real* out = pass.out + row * channels;
  for (std::size_t c = first; c < channels; c += kWarpSize * width) {
    auto x = load_pack<width>(input + c);
    const auto weight = load_pack<width>(pass.weight + c);
    const auto bias = load_pack<width>(pass.bias + c);
    for (int k = 0; k < width; ++k) {
      const float norm = (widened(x.of[k]) - mean) * scale;
      x.of[k] = rounded<Real>(norm * widened(weight.of[k]) + widened(bias.of[k]));
    }
    store_pack(out + c, x);
  }
  if (lane_index() == 0) {
    pass.mean[row] = mean;
    pass.scale[row] = scale;
  }
}

/// With n = (x - mean) scale and g = d_out weight: dx = scale (g - mean(g) - n mean(g n)).
template <int width, class Real>
__global__ void input_kernel(LayerNormBackwardOf<Real> pass) {
  const std::size_t row = warp_row();
  if (row >= pass.rows) {
    return;
  }
  const std::size_t channels = pass.channels;
  const std::size_t first = static_cast<std::size_t>(lane_index()) * width;
  const auto count = static_cast<float>(channels);
  const Real* d_out = pass.d_out + row * channels;
  const Real* input = pass.input + row * channels;
  const float mean = pass.mean[row];
  const float scale = pass.scale[row];
  float sum = 0;
  float sum_with_norm = 0;
  for (std::size_t c = first; c < channels; c += kWarpSize * width) {
    const auto x = load_pack<width>(input + c);
    const auto dy = load_pack<width>(d_out + c);
    const auto weight = load_pack<width>(pass.weight + c);
    for (int k = 0; k < width; ++k) {
      const float gradient = widened(dy.of[k]) * widened(weight.of[k]);
      sum += gradient;
      sum_with_norm += gradient * ((widened(x.of[k]) - mean) * scale);
    }
  }
  const float mean_gradient = warp_sum(sum) / count;
  const float mean_with_norm = warp_sum(sum_with_norm) / count;
  Real* d_input = pass.d_input + row * channels;
  for (std::size_t c = first; c < channels; c += kWarpSize * width) {
    const auto x = load_pack<width>(input + c);
    const auto dy = load_pack<width>(d_out + c);
    const auto weight = load_pack<width>(pass.weight + c);
    auto dx = load_pack<width>(d_input + c);
    for (int k = 0; k < width; ++k) {
      const float norm = (widened(x.of[k]) - mean) * scale;
      const float gradient = widened(dy.of[k]) * widened(weight.of[k]);
      const float d_norm = scale * (gradient - mean_gradient - norm * mean_with_norm);
      dx.of[k] = rounded<Real>(pass.add ? widened(dx.of[k]) + d_norm : d_norm);
    }
    store_pack(d_input + c, dx);
  }
}

/// What weight and bias get of one row.
template <int width, class Real>
struct WeightTerms {
  LayerNormBackwardOf<Real> pass;
  __device__ Terms<2, width> operator()(std::size_t row, std::size_t c) const {
    const std::size_t at = row * pass.channels + c;
    const auto x = load_pack<width>(pass.input + at);
    const auto dy = load_pack<width>(pass.d_out + at);
    const float mean = pass.mean[row];
    const float scale = pass.scale[row];
    Terms<2, width> terms;
    for (int j = 0; j < width; ++j) {
      const float d_out = widened(dy.of[j]);
      terms.of[0][j] = d_out * (widened(x.of[j]) - mean) * scale;
      terms.of[1][j] = d_out;
    }
    return terms;
  }
};

/// d_input itself.
template <int width, class Real>
struct InputTerms {
  LayerNormBackwardOf<Real> pass;
  __device__ Terms<1, width> operator()(std::size_t row, std::size_t c) const {
    const auto dx = load_pack<width>(pass.d_input + row * pass.channels + c);
    Terms<1, width> terms;
    for (int j = 0; j < width; ++j) {
      terms.of[0][j] = widened(dx.of[j]);
    }
    return terms;
  }
};

/// By row for the input, by column for the weights: each kernel reads along memory.
template <int width, class Real>
void backward_in_two(const LayerNormBackwardOf<Real>& pass, int device) {
  launch(device, warp_for_each(pass.rows), input_kernel<width, Real>, pass);
  if (pass.d_input_sum != nullptr) {
    add_column_sums<1, width>(device, InputTerms<width, Real>{pass}, pass.rows, pass.channels,
                              {{pass.d_input_sum}});
  }
  add_column_sums<2, width>(device, WeightTerms<width, Real>{pass}, pass.rows, pass.channels,
                            {{pass.d_weight, pass.d_bias}});
}

/// Channels that a warp moves at once, a pack each lane.
template <class Real>
constexpr std::size_t kSpanOf = std::size_t{kWarpSize} * kPackOf<Real>;
/// Spans of a row whose numbers and sums the registers of a warp have room for.
constexpr int kMostSpans = 6;
/// One for each multiprocessor of an H100.
constexpr unsigned kRowBlocks = 132;
/// As many as its registers have room for.
template <int spans>
constexpr unsigned kRowThreads = spans <= 3 ? 384 : 256;

/// The sums of a block's warps, added up, become row blockIdx.x of `parts` (gridDim.x, channels).
template <int spans, int width>
__device__ void put_part(const Pack<float, width> (&mine)[spans], float* parts) {
  constexpr unsigned kChannels = spans * kWarpSize * width;
  auto* sums = shared_memory<float>();  // (warps, kChannels)
#pragma unroll
  for (int s = 0; s < spans; ++s) {
    store_pack(sums + warp_index() * kChannels + (s * kWarpSize + lane_index()) * width, mine[s]);
  }
  __syncthreads();
  for (std::size_t c = threadIdx.x; c < kChannels; c += blockDim.x) {
    float sum = 0;
    for (unsigned warp = 0; warp < blockDim.x / kWarpSize; ++warp) {
      sum += sums[warp * kChannels + c];
    }
    parts[blockIdx.x * kChannels + c] = sum;
  }
  __syncthreads();  // the next sums use the same memory
}

/// The same from one reading of the arrays, for rows of whole spans: d_input, and the block's parts
/// of d_weight, d_bias and, where there are three, d_input_sum. A warp goes through rows; its lanes
/// keep the sums of their channels.
template <int spans, int sums, class Real>
__global__ void __launch_bounds__(kRowThreads<spans>)
    backward_kernel(LayerNormBackwardOf<Real> pass, Targets<sums> parts) {
  constexpr int width = kPackOf<Real>;
  constexpr std::size_t channels = spans * kSpanOf<Real>;
  constexpr auto count = static_cast<float>(channels);
  const std::size_t first = static_cast<std::size_t>(lane_index()) * width;
  Pack<Real, width> weight[spans];
#pragma unroll
  for (int s = 0; s < spans; ++s) {
    weight[s] = load_pack<width>(pass.weight + first + s * kSpanOf<Real>);
  }
  Pack<float, width> d_weight[spans] = {}, d_bias[spans] = {}, d_input[spans] = {};
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * (blockDim.x / kWarpSize);
  for (std::size_t row = warp_row(); row < pass.rows; row += stride) {
    // All of the row is on its way before the first of it is waited for.
    Pack<Real, width> x[spans], dy[spans], dx[spans];
#pragma unroll
    for (int s = 0; s < spans; ++s) {
      const std::size_t at = row * channels + first + s * kSpanOf<Real>;
      x[s] = load_pack<width>(pass.input + at);
      dy[s] = load_pack<width>(pass.d_out + at);
      dx[s] = load_pack<width>(pass.d_input + at);
    }
    const float mean = pass.mean[row];
    const float scale = pass.scale[row];
    float sum = 0;
    float sum_with_norm = 0;
#pragma unroll
    for (int s = 0; s < spans; ++s) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const float norm = (widened(x[s].of[k]) - mean) * scale;
        const float d_out = widened(dy[s].of[k]);
        const float gradient = d_out * widened(weight[s].of[k]);
        sum += gradient;
        sum_with_norm += gradient * norm;
        d_weight[s].of[k] += d_out * norm;
        d_bias[s].of[k] += d_out;
      }
    }
    const float mean_gradient = warp_sum(sum) / count;
    const float mean_with_norm = warp_sum(sum_with_norm) / count;
#pragma unroll
    for (int s = 0; s < spans; ++s) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const float norm = (widened(x[s].of[k]) - mean) * scale;
        const float gradient = widened(dy[s].of[k]) * widened(weight[s].of[k]);
        const float d_norm = scale * (gradient - mean_gradient - norm * mean_with_norm);
        dx[s].of[k] = rounded<Real>(pass.add ? widened(dx[s].of[k]) + d_norm : d_norm);
        if constexpr (sums == 3) {
          d_input[s].of[k] += widened(dx[s].of[k]);
        }
      }
      store_pack(pass.d_input + row * channels + first + s * kSpanOf<Real>, dx[s]);
    }
  }
  put_part(d_weight, parts.of[0]);
  put_part(d_bias, parts.of[1]);
  if constexpr (sums == 3) {
    put_part(d_input, parts.of[2]);
  }
}

/// Sums beside d_input: their parts, and what they are added to.
template <int spans, int sums, class Real>
void queue_backward(const LayerNormBackwardOf<Real>& pass, const Targets<sums>& targets,
                    int device) {
  constexpr unsigned kWarps = kRowThreads<spans> / kWarpSize;
  // Two rows at least for each warp: fewer would not be worth the block's part of the sums.
  const unsigned blocks = std::min(kRowBlocks, blocks_of(pass.rows, 2 * kWarps));
  const auto partial = parts_in_workspace<sums>(device, blocks, pass.channels);
  Grid grid{{blocks, 1, 1}, {kRowThreads<spans>, 1, 1}};
  grid.shared_bytes = sizeof(float) * kWarps * pass.channels;
  launch(device, grid, backward_kernel<spans, sums, Real>, pass, partial.parts);
  add_parts(device, partial, blocks, targets);
}

/// False, and nothing done, where rows are no whole spans or too many.
template <int spans, class Real>
bool backward_in_one(const LayerNormBackwardOf<Real>& pass, int device) {
  if (pass.channels != spans * kSpanOf<Real>) {
    if constexpr (spans < kMostSpans) {
      return backward_in_one<spans + 1>(pass, device);
    } else {
      return false;
    }
  }
  if (pass.d_input_sum == nullptr) {
    queue_backward<spans, 2>(pass, {{pass.d_weight, pass.d_bias}}, device);
  } else {
    queue_backward<spans, 3>(pass, {{pass.d_weight, pass.d_bias, pass.d_input_sum}}, device);
  }
  return true;
}

}  // namespace

template <class Real>
void layer_norm_forward(const LayerNormForwardOf<Real>& pass, int device) {
  launch(
      device, warp_for_each(pass.rows),
      in_packs<Real>(pass.channels) ? forward_kernel<kPackOf<Real>, Real> : forward_kernel<1, Real>,
      pass);
}

template <class Real>
void layer_norm_backward(const LayerNormBackwardOf<Real>& pass, int device) {
  if (!backward_in_one<1>(pass, device)) {
    in_packs<Real>(pass.channels) ? backward_in_two<kPackOf<Real>>(pass, device)
                                  : backward_in_two<1>(pass, device);
  }
}

template void layer_norm_forward(const LayerNormForwardOf<float>&, int);
template void layer_norm_forward(const LayerNormForwardOf<BFloat16>&, int);
template void layer_norm_backward(const LayerNormBackwardOf<float>&, int);
template void layer_norm_backward(const LayerNormBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
