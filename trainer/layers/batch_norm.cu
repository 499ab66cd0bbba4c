#include "trainer/layers/batch_norm.h"

#include "trainer/layers/cuda/channel_rows.cuh"
#include "trainer/layers/cuda/gpu_image_forms.h"
#include "trainer/layers/cuda/workspace.h"
#include "trainer/layers/number.h"

// Bound by memory, and half of a ResNet's step: forward reads x twice and writes y, backward reads
// x and the gradient twice. Sums of channels go by parts of the rows, each in a fixed order, since
// atomic additions would give other bits in each run.
namespace ddp::gpu {
namespace {

/// Of x - shift, and its square. Near the mean the difference of squares loses no digits: the shift
/// is the first row.
template <int width, class Real>
__global__ void moments_kernel(const Real* x, std::size_t rows, std::size_t channels,
                               float* parts) {
  const std::size_t channel = my_channel<width>();
  TwoSums<width> sums = {};
  if (channel < channels) {
    const auto shift = load_pack<width>(x + channel);
    walk_rows<Walk::down>(
        rows, [&](std::size_t row) { return load_pack<width>(x + row * channels + channel); },
        [&](std::size_t, const Pack<Real, width>& pack) {
          for (int j = 0; j < width; ++j) {
            const float off = widened(pack.of[j]) - widened(shift.of[j]);
            sums.of[0][j] += off;
            sums.of[1][j] += off * off;
          }
        });
  }
  store_sums<width>(sums, channels, parts);
}

/// A warp for each channel: mean and deviation of the batch, and the running ones moved.
template <class Real>
__global__ void statistics_kernel(NormForwardOf<Real> pass, std::size_t rows, std::size_t channels,
                                  const float* parts, unsigned count) {
  const std::size_t c = warp_row();
  if (c >= channels) {
    return;
  }
  const double n = static_cast<double>(rows);
  const ChannelSums sums = sums_of_parts(parts, count, channels, c);
  const double off = sums.first / n;
  const double squares = sums.second / n;
  if (lane_index() != 0) {
    return;
  }
  // Doubles: the channel's rows may be half a million, whose squares a float could not add up.
  const double difference = squares - off * off;
  const double variance = difference > 0 ? difference : 0;
  const double unbiased = rows > 1 ? variance * n / (n - 1) : variance;
  const auto mean = static_cast<float>(static_cast<double>(widened(pass.x[c])) + off);
  pass.mean[c] = mean;
  pass.inverse_deviation[c] =
      static_cast<float>(1 / sqrt(variance + static_cast<double>(kNormEpsilon)));
  pass.running_mean[c] += kNormMomentum * (mean - pass.running_mean[c]);
  pass.running_variance[c] +=
      kNormMomentum * (static_cast<float>(unbiased) - pass.running_variance[c]);
}

/// The running statistics keep the variance itself, as torchvision's do.
__global__ void inverse_kernel(const float* variance, float* inverse, std::size_t channels) {
  const std::size_t c = global_thread();
  if (c < channels) {
    inverse[c] = 1.0F / sqrtf(variance[c] + kNormEpsilon);
  }
}

/// The lines of a thread's channels.
template <int width>
struct Lines {
  float scale[width], offset[width];
};

/// In one place for forward and backward: both must see the same value on the same side of 0.
template <int width>
__device__ Lines<width> lines_of(const float* gamma, const float* beta, const float* mean,
                                 const float* inverse, std::size_t channel) {
  Lines<width> lines;
  for (int j = 0; j < width; ++j) {
    const std::size_t c = channel + j;
    const NormLine line = norm_line(gamma[c], beta[c], mean[c], inverse[c]);
    lines.scale[j] = line.scale;
    lines.offset[j] = line.offset;
  }
  return lines;
}

/// What a thread reads of one row; `second`: the residual.
template <int width, class Real, bool with_second>
struct RowOf {
  Pack<Real, width> first;
  Pack<Real, width> second;
};
template <int width, class Real>
struct RowOf<width, Real, false> {
  Pack<Real, width> first;
};

/// Of a pack, one bit for each number.
template <class Real>
__device__ std::uint8_t positive_bits(const Pack<Real, 8>& y) {
  unsigned bits = 0;
  for (unsigned j = 0; j < 8; ++j) {
    bits |= (widened(y.of[j]) > 0 ? 1U : 0U) << j;
  }
  return static_cast<std::uint8_t>(bits);
}

template <int width, class Real, bool with_residual>
__global__ void normalise_kernel(NormForwardOf<Real> pass, const float* mean, const float* inverse,
                                 std::size_t rows, std::size_t channels) {
  const std::size_t channel = my_channel<width>();
  if (channel >= channels) {
    return;
  }
  const auto lines = lines_of<width>(pass.gamma, pass.beta, mean, inverse, channel);
  walk_rows<Walk::up>(
      rows,
      [&](std::size_t row) {
        RowOf<width, Real, with_residual> read;
        read.first = load_pack<width>(pass.x + row * channels + channel);
        if constexpr (with_residual) {
          read.second = load_pack<width>(pass.residual + row * channels + channel);
        }
        return read;
      },
      [&](std::size_t row, const RowOf<width, Real, with_residual>& read) {
        Pack<Real, width> y;
        for (int j = 0; j < width; ++j) {
          float value = fmaf(widened(read.first.of[j]), lines.scale[j], lines.offset[j]);
          if constexpr (with_residual) {
            value += widened(read.second.of[j]);
          }
          y.of[j] = rounded<Real>(pass.relu && !(value > 0) ? 0.0F : value);
        }
        store_whole_pack(pass.y + row * channels + channel, y);
        if constexpr (with_residual && width == 8) {  // a pack is a byte of it
          if (pass.positive != nullptr) {
            pass.positive[(row * channels + channel) / 8] = positive_bits(y);
          }
        }
      });
}

/// What tells whether ReLU has let a value through.
enum class ReluMask { none, from_x, from_y, from_bits };

template <int width, class Real, ReluMask mask, bool with_more>
struct GradientRow {
  Pack<Real, width> d_y, x, y, more;
  std::uint8_t positive;
};

/// The gradient behind ReLU, of one row.
template <int width, class Real, ReluMask mask, bool with_more>
struct GradientRows {
  NormBackwardOf<Real> pass;
  std::size_t channels;
  std::size_t channel;
  Lines<width> lines;
  using Row = GradientRow<width, Real, mask, with_more>;

  __device__ GradientRows(const NormBackwardOf<Real>& p, std::size_t all, std::size_t first)
      : pass(p), channels(all), channel(first) {
    if constexpr (mask == ReluMask::from_x) {
      lines = lines_of<width>(p.gamma, p.beta, p.mean, p.inverse_deviation, first);
    }
  }
  __device__ Row read(std::size_t row) const {
    const std::size_t at = row * channels + channel;
    Row read;
    read.d_y = load_pack<width>(pass.d_y + at);
    read.x = load_pack<width>(pass.x + at);
    if constexpr (mask == ReluMask::from_y) {
      read.y = load_pack<width>(pass.y + at);
    } else if constexpr (mask == ReluMask::from_bits) {
      read.positive = pass.positive[at / 8];
    }
    if constexpr (with_more) {
      read.more = load_pack<width>(pass.d_more + at);
    }
    return read;
  }
  /// Of channel j of the pack. With more it is what d_y becomes, rounded as it will be read.
  __device__ float gradient(const Row& row, int j) const {
    float d = widened(row.d_y.of[j]);
    if constexpr (with_more) {
      d = widened(rounded<Real>(d + widened(row.more.of[j])));
    }
    bool lets_through = true;
    if constexpr (mask == ReluMask::from_x) {
      lets_through = fmaf(widened(row.x.of[j]), lines.scale[j], lines.offset[j]) > 0;
    } else if constexpr (mask == ReluMask::from_y) {
      lets_through = widened(row.y.of[j]) > 0;
    } else if constexpr (mask == ReluMask::from_bits) {
      lets_through = (row.positive >> j & 1U) != 0;
    }
    return lets_through ? d : 0.0F;
  }
};

/// Of the gradient, and it times x - mean. `writes`: it replaces d_y.
template <int width, class Real, ReluMask mask, bool with_more, bool writes>
__global__ void gradient_sums_kernel(NormBackwardOf<Real> pass, std::size_t rows,
                                     std::size_t channels, float* parts) {
  const std::size_t channel = my_channel<width>();
  TwoSums<width> sums = {};
  if (channel < channels) {
    const GradientRows<width, Real, mask, with_more> source(pass, channels, channel);
    float mean[width];
    for (int j = 0; j < width; ++j) {
      mean[j] = pass.mean[channel + j];
    }
    walk_rows<Walk::down>(
        rows, [&](std::size_t row) { return source.read(row); },
        [&](std::size_t row, const GradientRow<width, Real, mask, with_more>& read) {
          Pack<Real, width> masked;
          for (int j = 0; j < width; ++j) {
            const float d = source.gradient(read, j);
            sums.of[0][j] += d;
            sums.of[1][j] += d * (widened(read.x.of[j]) - mean[j]);
            masked.of[j] = rounded<Real>(d);
          }
          if constexpr (writes) {
            store_whole_pack(pass.d_y + row * channels + channel, masked);
          }
        });
  }
  store_sums<width>(sums, channels, parts);
}

/// d_x = by_gradient d_y + by_input x + offset, each (C).
struct Coefficients {
  float* by_gradient;
  float* by_input;
  float* offset;
};

/// A warp for each channel. With u = (x - mean) / deviation:
/// d_x = gamma / deviation (d_y - mean of d_y - u times mean of (u d_y)).
template <class Real>
__global__ void coefficients_kernel(NormBackwardOf<Real> pass, std::size_t rows,
                                    std::size_t channels, const float* parts, unsigned count,
                                    Coefficients to) {
  const std::size_t c = warp_row();
  if (c >= channels) {
    return;
  }
  const auto [sum, product] = sums_of_parts(parts, count, channels, c);
  if (lane_index() != 0) {
    return;
  }
  const double n = static_cast<double>(rows);
  const auto inverse = static_cast<double>(pass.inverse_deviation[c]);
  const double factor = static_cast<double>(pass.gamma[c]) * inverse;
  const double d_gamma = product * inverse;
  pass.d_beta[c] += static_cast<float>(sum);
  pass.d_gamma[c] += static_cast<float>(d_gamma);
  // The gradient of a norm, sorted by what a row's element is multiplied with. It takes three
  // numbers for each channel, so the pass over the rows reads nothing else.
  const double by_input = -factor * inverse * d_gamma / n;
  to.by_gradient[c] = static_cast<float>(factor);
  to.by_input[c] = static_cast<float>(by_input);
  to.offset[c] =
      static_cast<float>(-factor * sum / n - by_input * static_cast<double>(pass.mean[c]));
}

template <int width, class Real, ReluMask mask>
__global__ void input_gradient_kernel(NormBackwardOf<Real> pass, std::size_t rows,
                                      std::size_t channels, Coefficients by) {
  const std::size_t channel = my_channel<width>();
  if (channel >= channels) {
    return;
  }
  const GradientRows<width, Real, mask, false> source(pass, channels, channel);
  float by_gradient[width], by_input[width], offset[width];
  for (int j = 0; j < width; ++j) {
    by_gradient[j] = by.by_gradient[channel + j];
    by_input[j] = by.by_input[channel + j];
    offset[j] = by.offset[channel + j];
  }
  walk_rows<Walk::up>(
      rows, [&](std::size_t row) { return source.read(row); },
      [&](std::size_t row, const GradientRow<width, Real, mask, false>& read) {
        Pack<Real, width> d_x;
        for (int j = 0; j < width; ++j) {
          const float along = fmaf(widened(read.x.of[j]), by_input[j], offset[j]);
          d_x.of[j] = rounded<Real>(fmaf(source.gradient(read, j), by_gradient[j], along));
        }
        store_whole_pack(pass.d_x + row * channels + channel, d_x);
      });
}

/// Of the matrix, as the kernels count.
struct Sizes {
  std::size_t rows, channels;
  explicit Sizes(const NormShape& shape)
      : rows(static_cast<std::size_t>(shape.rows)),
        channels(static_cast<std::size_t>(shape.channels)) {}
};

template <int width>
Grid sums_grid(const Sizes& size) {
  // Half as many: a block's sums cost memory and time of the next kernel.
  Grid grid = walking_grid<width>(size.rows, size.channels, kWalkingBlocks / 2);
  grid.shared_bytes = kSumsBytes<width>;
  return grid;
}

/// Two packs read ahead leave a multiprocessor room for three blocks: twice as many, so that the
/// last of them leave no part of the device idle.
constexpr unsigned kTwoPackBlocks = 2 * 3 * 132;

template <int width, class Real>
void normalise(const Sizes& size, const NormForwardOf<Real>& pass, const float* mean,
               const float* inverse, int device) {
  const bool with_residual = pass.residual != nullptr;
  const Grid grid = walking_grid<width>(size.rows, size.channels,
                                        with_residual ? kTwoPackBlocks : kWalkingBlocks);
  launch(device, grid,
         with_residual ? normalise_kernel<width, Real, true> : normalise_kernel<width, Real, false>,
         pass, mean, inverse, size.rows, size.channels);
}

/// Two passes over x, with the channels' statistics between them: the mean has to be known before
/// the first y is written.
template <int width, class Real>
void forward_of(const Sizes& size, const NormForwardOf<Real>& pass, int device) {
  const Grid grid = sums_grid<width>(size);
  const unsigned count = grid.blocks.y;
  auto* parts = static_cast<float*>(workspace(device, sizeof(float) * 2 * count * size.channels));
  launch(device, grid, moments_kernel<width, Real>, pass.x, size.rows, size.channels, parts);
  launch(device, warp_for_each(size.channels), statistics_kernel<Real>, pass, size.rows,
         size.channels, parts, count);
  normalise<width>(size, pass, pass.mean, pass.inverse_deviation, device);
}

template <int width, class Real, ReluMask mask, bool with_more>
void backward_with(const Sizes& size, const NormBackwardOf<Real>& pass, int device) {
  // What the residual's way needs, and what the second pass would otherwise add up once more.
  constexpr bool kWrites = with_more || mask == ReluMask::from_y || mask == ReluMask::from_bits;
  const Grid grid = sums_grid<width>(size);
  const unsigned count = grid.blocks.y;
  auto* memory =
      static_cast<float*>(workspace(device, sizeof(float) * (2 * count + 3) * size.channels));
  const Coefficients by{memory, memory + size.channels, memory + 2 * size.channels};
  float* parts = memory + 3 * size.channels;
  launch(device, grid, gradient_sums_kernel<width, Real, mask, with_more, kWrites>, pass, size.rows,
         size.channels, parts);
  launch(device, warp_for_each(size.channels), coefficients_kernel<Real>, pass, size.rows,
         size.channels, parts, count, by);
  constexpr ReluMask kLeft = kWrites ? ReluMask::none : mask;
  launch(device, walking_grid<width>(size.rows, size.channels, kTwoPackBlocks),
         input_gradient_kernel<width, Real, kLeft>, pass, size.rows, size.channels, by);
}

template <int width, class Real, ReluMask mask>
void backward_of(const Sizes& size, const NormBackwardOf<Real>& pass, int device) {
  pass.d_more != nullptr ? backward_with<width, Real, mask, true>(size, pass, device)
                         : backward_with<width, Real, mask, false>(size, pass, device);
}

template <int width, class Real>
void backward_of(const Sizes& size, const NormBackwardOf<Real>& pass, int device) {
  // A kernel of its own for each, since what need not be read must not be asked for row by row.
  if constexpr (width == 8) {
    if (pass.positive != nullptr) {
      backward_of<width, Real, ReluMask::from_bits>(size, pass, device);
      return;
    }
  }
  if (pass.y == nullptr) {
    backward_of<width, Real, ReluMask::none>(size, pass, device);
  } else if (pass.beta != nullptr) {
    backward_of<width, Real, ReluMask::from_x>(size, pass, device);
  } else {
    backward_of<width, Real, ReluMask::from_y>(size, pass, device);
  }
}

}  // namespace

template <class Real>
void norm_forward(const NormShape& shape, const NormForwardOf<Real>& pass, int device) {
  const Sizes size(shape);
  in_packs<Real>(size.channels) ? forward_of<kPackOf<Real>>(size, pass, device)
                                : forward_of<1>(size, pass, device);
}

template <class Real>
void norm_infer(const NormShape& shape, const NormForwardOf<Real>& pass, int device) {
  const Sizes size(shape);
  auto* inverse = static_cast<float*>(workspace(device, sizeof(float) * size.channels));
  launch(device, thread_for_each(size.channels), inverse_kernel, pass.running_variance, inverse,
         size.channels);
  in_packs<Real>(size.channels)
      ? normalise<kPackOf<Real>>(size, pass, pass.running_mean, inverse, device)
      : normalise<1>(size, pass, pass.running_mean, inverse, device);
}

template <class Real>
void norm_backward(const NormShape& shape, const NormBackwardOf<Real>& pass, int device) {
  const Sizes size(shape);
  in_packs<Real>(size.channels) ? backward_of<kPackOf<Real>>(size, pass, device)
                                : backward_of<1>(size, pass, device);
}

template void norm_forward(const NormShape&, const NormForwardOf<float>&, int);
template void norm_forward(const NormShape&, const NormForwardOf<BFloat16>&, int);
template void norm_infer(const NormShape&, const NormForwardOf<float>&, int);
template void norm_infer(const NormShape&, const NormForwardOf<BFloat16>&, int);
template void norm_backward(const NormShape&, const NormBackwardOf<float>&, int);
template void norm_backward(const NormShape&, const NormBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
