#include "trainer/layers/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "trainer/layers/row_chunks.h"
#include "trainer/layers/vector_code.h"

namespace ddp {
namespace {

/// Floats add up over so many rows, doubles over those blocks.
constexpr std::int64_t kBlockRows = 64;

/// Two sums per channel over a block of rows.
struct Sums {
  float* first;   // (C)
  float* second;  // (C)
};

/// Of x - shift and its square. Near the mean the difference of squares loses no digits.
DDP_VECTOR_CODE void add_moments(const float* x, const float* shift, std::int64_t rows,
                                 std::int64_t channels, Sums sums) {
  float* __restrict first = sums.first;
  float* __restrict second = sums.second;
  for (std::int64_t m = 0; m < rows; ++m, x += channels) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float d = x[c] - shift[c];
      first[c] += d;
      second[c] += d * d;
    }
  }
}

/// Adds `more`, masks d_y by ReLU, then sums it, and it times x - mean.
DDP_VECTOR_CODE void add_gradient_sums(const float* x, const float* y, const float* more,
                                       const float* mean, float* __restrict d_y, std::int64_t rows,
                                       std::int64_t channels, Sums sums) {
  float* __restrict first = sums.first;
  float* __restrict second = sums.second;
  for (std::int64_t m = 0; m < rows; ++m, x += channels, d_y += channels) {
    // First, so that ReLU masks the sum: it has let the same value through on both ways.
    if (more != nullptr) {
      for (std::int64_t c = 0; c < channels; ++c) {
        d_y[c] += more[c];
      }
      more += channels;
    }
    if (y != nullptr) {
      for (std::int64_t c = 0; c < channels; ++c) {
        d_y[c] = y[c] > 0 ? d_y[c] : 0.0F;
      }
      y += channels;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      first[c] += d_y[c];
      second[c] += d_y[c] * (x[c] - mean[c]);
    }
  }
}

/// y = scale (x - mean) + offset, then residual and ReLU.
DDP_VECTOR_CODE void apply(const float* x, const float* mean, const float* scale,
                           const float* offset, const float* residual, bool relu,
                           float* __restrict y, std::int64_t rows, std::int64_t channels) {
  for (std::int64_t m = 0; m < rows; ++m, x += channels, y += channels) {
    for (std::int64_t c = 0; c < channels; ++c) {
      y[c] = (x[c] - mean[c]) * scale[c] + offset[c];
    }
    if (residual != nullptr) {
      for (std::int64_t c = 0; c < channels; ++c) {
        y[c] += residual[c];
      }
      residual += channels;
    }
    if (relu) {
      for (std::int64_t c = 0; c < channels; ++c) {
        y[c] = y[c] > 0 ? y[c] : 0.0F;
      }
    }
  }
}

/// d_x = by_gradient d_y + by_input (x - mean) + offset.
DDP_VECTOR_CODE void apply_backward(const float* x, const float* mean, const float* d_y,
                                    const float* by_gradient, const float* by_input,
                                    const float* offset, float* __restrict d_x, std::int64_t rows,
                                    std::int64_t channels) {
  for (std::int64_t m = 0; m < rows; ++m, x += channels, d_y += channels, d_x += channels) {
    for (std::int64_t c = 0; c < channels; ++c) {
      d_x[c] = by_gradient[c] * d_y[c] + by_input[c] * (x[c] - mean[c]) + offset[c];
    }
  }
}

/// The two sums of all rows: add(first row, rows, sums) for each block, blocks and chunks in order.
template <class Add>
std::vector<double> sums_of(const NormShape& shape, const Add& add) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto chunks = static_cast<std::size_t>(chunk_count(shape.rows));
  std::vector<double> by_chunk(chunks * 2 * channels);
  for_row_chunks(shape.rows, [&](std::int64_t chunk, std::int64_t first, std::int64_t end) {
    double* sums = by_chunk.data() + static_cast<std::size_t>(chunk) * 2 * channels;
    std::vector<float> block(2 * channels);
    for (; first < end; first += kBlockRows) {
      std::fill(block.begin(), block.end(), 0.0F);
      add(first, std::min(kBlockRows, end - first), Sums{block.data(), block.data() + channels});
      for (std::size_t c = 0; c < block.size(); ++c) {
        sums[c] += static_cast<double>(block[c]);
      }
    }
  });
  std::vector<double> total(2 * channels);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t c = 0; c < total.size(); ++c) {
      total[c] += by_chunk[chunk * 2 * channels + c];
    }
  }
  return total;
}

void apply_all(const NormShape& shape, const NormForward& pass, const float* mean,
               const std::vector<float>& scale) {
  for_row_chunks(shape.rows, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    const auto at = first * shape.channels;
    apply(pass.x + at, mean, scale.data(), pass.beta,
          pass.residual != nullptr ? pass.residual + at : nullptr, pass.relu, pass.y + at,
          end - first, shape.channels);
  });
}

}  // namespace

void norm_forward(const NormShape& shape, const NormForward& pass, int /*device*/) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto rows = static_cast<double>(shape.rows);
  const std::vector<float> shift(pass.x, pass.x + channels);  // the first row
  const auto sums = sums_of(shape, [&](std::int64_t first, std::int64_t count, const Sums& block) {
    add_moments(pass.x + first * shape.channels, shift.data(), count, shape.channels, block);
  });
  std::vector<float> scale(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double off = sums[c] / rows;
    const double variance = std::max(0.0, sums[channels + c] / rows - off * off);
    const double mean = static_cast<double>(shift[c]) + off;
    const double unbiased = rows > 1 ? variance * rows / (rows - 1) : variance;
    pass.mean[c] = static_cast<float>(mean);
    pass.inverse_deviation[c] =
        static_cast<float>(1 / std::sqrt(variance + static_cast<double>(kNormEpsilon)));
    pass.running_mean[c] += kNormMomentum * (pass.mean[c] - pass.running_mean[c]);
    pass.running_variance[c] +=
        kNormMomentum * (static_cast<float>(unbiased) - pass.running_variance[c]);
    scale[c] = pass.gamma[c] * pass.inverse_deviation[c];
  }
  apply_all(shape, pass, pass.mean, scale);
}

void norm_infer(const NormShape& shape, const NormForward& pass, int /*device*/) {
  std::vector<float> scale(static_cast<std::size_t>(shape.channels));
  for (std::size_t c = 0; c < scale.size(); ++c) {
    scale[c] = pass.gamma[c] / std::sqrt(pass.running_variance[c] + kNormEpsilon);
  }
  apply_all(shape, pass, pass.running_mean, scale);
}

void norm_backward(const NormShape& shape, const NormBackward& pass, int /*device*/) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto sums = sums_of(shape, [&](std::int64_t first, std::int64_t count, const Sums& block) {
    const auto at = first * shape.channels;
    add_gradient_sums(pass.x + at, pass.y != nullptr ? pass.y + at : nullptr,
                      pass.d_more != nullptr ? pass.d_more + at : nullptr, pass.mean, pass.d_y + at,
                      count, shape.channels, block);
  });
  // With u = (x - mean) / deviation:
  // d_x = gamma / deviation (d_y - mean of d_y - u times mean of (u d_y)).
  std::vector<float> by_gradient(channels);
  std::vector<float> by_input(channels);
  std::vector<float> offset(channels);
  const auto rows = static_cast<double>(shape.rows);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto inverse = static_cast<double>(pass.inverse_deviation[c]);
    const double factor = static_cast<double>(pass.gamma[c]) * inverse;
    const double d_gamma = sums[channels + c] * inverse;
    pass.d_beta[c] += static_cast<float>(sums[c]);
    pass.d_gamma[c] += static_cast<float>(d_gamma);
    by_gradient[c] = static_cast<float>(factor);
    by_input[c] = static_cast<float>(-factor * inverse * d_gamma / rows);
    offset[c] = static_cast<float>(-factor * sums[c] / rows);
  }
  for_row_chunks(shape.rows, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    const auto at = first * shape.channels;
    apply_backward(pass.x + at, pass.mean, pass.d_y + at, by_gradient.data(), by_input.data(),
                   offset.data(), pass.d_x + at, end - first, shape.channels);
  });
}

}  // namespace ddp
