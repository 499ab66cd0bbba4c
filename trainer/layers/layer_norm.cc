#include "trainer/layers/layer_norm.h"

#include <cmath>

#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/row_sums.h"
#include "trainer/layers/team.h"

namespace ddp::DDP_LEVEL {
namespace {

void forward_rows(const LayerNormForward& pass, std::size_t first_row, std::size_t end) {
  const std::size_t channels = pass.channels;
  const auto count = static_cast<float>(channels);
  for (std::size_t row = first_row; row < end; ++row) {
    const float* input = pass.input + row * channels;
    float sum = 0;
    if (pass.addition != nullptr) {
      const float* addition = pass.addition + row * channels;
      float* total = pass.sum + row * channels;
#pragma omp simd reduction(+ : sum)
      for (std::size_t c = 0; c < channels; ++c) {
        total[c] = input[c] + addition[c];
        sum += total[c];
      }
      input = total;
    } else {
#pragma omp simd reduction(+ : sum)
      for (std::size_t c = 0; c < channels; ++c) {
        sum += input[c];
      }
    }
    const float mean = sum / count;
    // In a second pass over the row, which is still in the cache: mean of squares less square of
    // the mean loses what is small beside the mean.
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::size_t c = 0; c < channels; ++c) {
      const float off = input[c] - mean;
      squares += off * off;
    }
    const float scale = 1.0F / std::sqrt(squares / count + kLayerNormEpsilon);
    float* __restrict out = pass.out + row * channels;
    for (std::size_t c = 0; c < channels; ++c) {
      out[c] = (input[c] - mean) * scale * pass.weight[c] + pass.bias[c];
    }
    pass.mean[row] = mean;
    pass.scale[row] = scale;
  }
}

/// With n = (x - mean) scale and g = d_out weight: dx = scale (g - mean(g) - n mean(g n)).
void backward_rows(const LayerNormBackward& pass, std::size_t first_row, std::size_t end) {
  const std::size_t channels = pass.channels;
  const auto count = static_cast<float>(channels);
  for (std::size_t row = first_row; row < end; ++row) {
    const float* d_out = pass.d_out + row * channels;
    const float* input = pass.input + row * channels;
    const float mean = pass.mean[row];
    const float scale = pass.scale[row];
    float sum = 0;
    float sum_with_norm = 0;
#pragma omp simd reduction(+ : sum, sum_with_norm)
    for (std::size_t c = 0; c < channels; ++c) {
      const float gradient = d_out[c] * pass.weight[c];
      sum += gradient;
      sum_with_norm += gradient * ((input[c] - mean) * scale);
    }
    const float mean_gradient = sum / count;
    const float mean_with_norm = sum_with_norm / count;
    float* d_input = pass.d_input + row * channels;
    const bool add = pass.add;
#pragma omp simd
    for (std::size_t c = 0; c < channels; ++c) {
      const float norm = (input[c] - mean) * scale;
      const float gradient = d_out[c] * pass.weight[c];
      const float d_norm = scale * (gradient - mean_gradient - norm * mean_with_norm);
      d_input[c] = add ? d_input[c] + d_norm : d_norm;
    }
  }
}

/// Sums over rows, by columns: each is added up from the first row to the last on one thread.
void backward_columns(const LayerNormBackward& pass, std::size_t first, std::size_t end) {
  float* d_weight = pass.d_weight;
  float* d_bias = pass.d_bias;
  for (std::size_t row = 0; row < pass.rows; ++row) {
    const float* d_out = pass.d_out + row * pass.channels;
    const float* input = pass.input + row * pass.channels;
    const float mean = pass.mean[row];
    const float scale = pass.scale[row];
#pragma omp simd
    for (std::size_t c = first; c < end; ++c) {
      d_weight[c] += d_out[c] * ((input[c] - mean) * scale);
      d_bias[c] += d_out[c];
    }
  }
}

}  // namespace

void layer_norm_forward(const LayerNormForward& pass, int /*device*/) {
  share_out(
      pass.rows, rows_worth_sharing(pass.channels),
      [&](std::size_t first, std::size_t end, std::size_t) { forward_rows(pass, first, end); });
}

void layer_norm_backward(const LayerNormBackward& pass, int /*device*/) {
  share_out(
      pass.rows, rows_worth_sharing(pass.channels),
      [&](std::size_t first, std::size_t end, std::size_t) { backward_rows(pass, first, end); });
  share_out(
      pass.channels, columns_worth_sharing(pass.rows, pass.channels),
      [&](std::size_t first, std::size_t end, std::size_t) { backward_columns(pass, first, end); });
  if (pass.d_input_sum != nullptr) {
    add_rows(pass.d_input, pass.rows, pass.channels, pass.d_input_sum);
  }
}

}  // namespace ddp::DDP_LEVEL
