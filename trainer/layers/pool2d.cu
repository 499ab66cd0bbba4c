#include "trainer/layers/pool2d.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_image_forms.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// In the units of a thread: `channels` counts packs.
struct PoolSizes {
  unsigned height, width, channels, pooled_height, pooled_width;
};

// The paper's only pool: 3 x 3 with a stride of 2 and one pixel of padding on each side. As
// constants, so that the loops below unroll and the divisions become shifts.
constexpr int kWindow = 3;
constexpr int kWindowStride = 2;

/// A thread's pixel and channel.
struct PoolPlace {
  std::size_t image;
  unsigned row, column;
  std::size_t channel;
};
__device__ inline PoolPlace place_of(std::size_t i, unsigned height, unsigned width,
                                     unsigned channels) {
  const std::size_t pixel = i / channels;
  return {pixel / width / height, static_cast<unsigned>(pixel / width % height),
          static_cast<unsigned>(pixel % width), i % channels};
}

/// A thread for each pack of the result. The first of equals wins, as in PyTorch.
template <int width, class Real>
__global__ void max_pool_kernel(PoolSizes size, std::size_t count, const Real* x, Real* y,
                                std::uint8_t* chosen) {
  const std::size_t i = global_thread();
  if (i >= count) {
    return;
  }
  const auto at = place_of(i, size.pooled_height, size.pooled_width, size.channels);
  Pack<Real, width> largest = {};
  Pack<std::uint8_t, width> places = {};
  bool first = true;
  for (int place = 0; place < kWindow * kWindow; ++place) {
    const int h = static_cast<int>(at.row) * kWindowStride - 1 + place / kWindow;
    const int w = static_cast<int>(at.column) * kWindowStride - 1 + place % kWindow;
    if (h < 0 || h >= static_cast<int>(size.height) || w < 0 || w >= static_cast<int>(size.width)) {
      continue;
    }
    const auto pack = load_pack<width>(
        x + (((at.image * size.height + h) * size.width + w) * size.channels + at.channel) * width);
    for (int j = 0; j < width; ++j) {
      if (first || widened(pack.of[j]) > widened(largest.of[j])) {
        largest.of[j] = pack.of[j];
        places.of[j] = static_cast<std::uint8_t>(place);
      }
    }
    first = false;
  }
  store_pack(y + i * width, largest);
  store_pack(chosen + i * width, places);
}

/// A thread for each pack of the input: it asks the windows that it is in, so that nobody adds to
/// what others add to.
template <int width, class Real>
__global__ void max_pool_gradient_kernel(PoolSizes size, std::size_t count, const Real* d_y,
                                         const Real* d_more, const std::uint8_t* chosen,
                                         Real* d_x) {
  const std::size_t i = global_thread();
  if (i >= count) {
    return;
  }
  const auto at = place_of(i, size.height, size.width, size.channels);
  float sums[width] = {};
  for (int place = 0; place < kWindow * kWindow; ++place) {
    // The window whose place this pixel is, where there is one.
    const int p = static_cast<int>(at.row) + 1 - place / kWindow;
    const int q = static_cast<int>(at.column) + 1 - place % kWindow;
    if (p < 0 || q < 0 || p % kWindowStride != 0 || q % kWindowStride != 0 ||
        p / kWindowStride >= static_cast<int>(size.pooled_height) ||
        q / kWindowStride >= static_cast<int>(size.pooled_width)) {
      continue;
    }
    const std::size_t pooled =
        (((at.image * size.pooled_height + p / kWindowStride) * size.pooled_width +
          q / kWindowStride) *
             size.channels +
         at.channel) *
        width;
    const auto gradient = load_pack<width>(d_y + pooled);
    const auto places = load_pack<width>(chosen + pooled);
    // The two ways that the result has gone add up here, and not in a pass of their own.
    Pack<Real, width> more = {};
    if (d_more != nullptr) {
      more = load_pack<width>(d_more + pooled);
    }
    for (int j = 0; j < width; ++j) {
      if (places.of[j] == place) {
        sums[j] += widened(gradient.of[j]) + widened(more.of[j]);
      }
    }
  }
  Pack<Real, width> result;
  for (int j = 0; j < width; ++j) {
    result.of[j] = rounded<Real>(sums[j]);
  }
  store_pack(d_x + i * width, result);
}

/// A thread for each pack of an image's means, pixel by pixel.
template <int width, class Real>
__global__ void mean_pool_kernel(std::size_t pixels, std::size_t channels, std::size_t count,
                                 const Real* x, Real* y) {
  const std::size_t i = global_thread();
  if (i >= count) {
    return;
  }
  const std::size_t image = i / channels;
  float sums[width] = {};
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    const auto pack =
        load_pack<width>(x + ((image * pixels + pixel) * channels + i % channels) * width);
    for (int j = 0; j < width; ++j) {
      sums[j] += widened(pack.of[j]);
    }
  }
  // Rounded once, behind the sum: a sum in bf16 would lose whole pixels.
  const float share = 1.0F / static_cast<float>(pixels);
  Pack<Real, width> means;
  for (int j = 0; j < width; ++j) {
    means.of[j] = rounded<Real>(sums[j] * share);
  }
  store_pack(y + i * width, means);
}

template <int width, class Real>
__global__ void mean_pool_gradient_kernel(std::size_t pixels, std::size_t channels,
                                          std::size_t count, const Real* d_y, Real* d_x) {
  const std::size_t i = global_thread();
  if (i >= count) {
    return;
  }
  const std::size_t image = i / channels / pixels;
  // Each pixel has had the same part in the mean. The mean itself comes from the cache, since all
  // pixels of an image read it.
  const float share = 1.0F / static_cast<float>(pixels);
  auto pack = load_pack<width>(d_y + (image * channels + i % channels) * width);
  for (int j = 0; j < width; ++j) {
    pack.of[j] = rounded<Real>(widened(pack.of[j]) * share);
  }
  store_pack(d_x + i * width, pack);
}

PoolSizes sizes_of(const PoolShape& shape, int width) {
  return {static_cast<unsigned>(shape.height), static_cast<unsigned>(shape.width),
          static_cast<unsigned>(shape.channels / width),
          static_cast<unsigned>(max_pooled(shape.height)),
          static_cast<unsigned>(max_pooled(shape.width))};
}

/// Calls body(integral_constant width) for packs of 16 bytes, or single numbers.
template <class Real, class Body>
void in_widest(const PoolShape& shape, const Body& body) {
  if (in_packs<Real>(static_cast<std::size_t>(shape.channels))) {
    body(std::integral_constant<int, kPackOf<Real>>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

std::size_t packs(std::int64_t batch, std::int64_t pixels, std::int64_t channels, int width) {
  return static_cast<std::size_t>(batch * pixels * channels / width);
}

}  // namespace

template <class Real>
void max_pool_forward(const PoolShape& shape, std::int64_t batch, const Real* x, Real* y,
                      std::uint8_t* chosen, int device) {
  in_widest<Real>(shape, [&](auto width) {
    const auto count =
        packs(batch, max_pooled(shape.height) * max_pooled(shape.width), shape.channels, width());
    launch(device, thread_for_each(count), max_pool_kernel<width(), Real>, sizes_of(shape, width()),
           count, x, y, chosen);
  });
}

template <class Real>
void max_pool_backward(const PoolShape& shape, std::int64_t batch, const Real* d_y,
                       const std::uint8_t* chosen, Real* d_x, const Real* d_more, int device) {
  in_widest<Real>(shape, [&](auto width) {
    const auto count = packs(batch, shape.height * shape.width, shape.channels, width());
    launch(device, thread_for_each(count), max_pool_gradient_kernel<width(), Real>,
           sizes_of(shape, width()), count, d_y, d_more, chosen, d_x);
  });
}

template <class Real>
void mean_pool_forward(const PoolShape& shape, std::int64_t batch, const Real* x, Real* y,
                       int device) {
  in_widest<Real>(shape, [&](auto width) {
    const auto count = packs(batch, 1, shape.channels, width());
    launch(device, thread_for_each(count), mean_pool_kernel<width(), Real>,
           static_cast<std::size_t>(shape.height * shape.width),
           static_cast<std::size_t>(shape.channels / width()), count, x, y);
  });
}

template <class Real>
void mean_pool_backward(const PoolShape& shape, std::int64_t batch, const Real* d_y, Real* d_x,
                        int device) {
  in_widest<Real>(shape, [&](auto width) {
    const auto count = packs(batch, shape.height * shape.width, shape.channels, width());
    launch(device, thread_for_each(count), mean_pool_gradient_kernel<width(), Real>,
           static_cast<std::size_t>(shape.height * shape.width),
           static_cast<std::size_t>(shape.channels / width()), count, d_y, d_x);
  });
}

#define DDP_POOLS_OF(Real)                                                                  \
  template void max_pool_forward(const PoolShape&, std::int64_t, const Real*, Real*,        \
                                 std::uint8_t*, int);                                       \
  template void max_pool_backward(const PoolShape&, std::int64_t, const Real*,              \
                                  const std::uint8_t*, Real*, const Real*, int);            \
  template void mean_pool_forward(const PoolShape&, std::int64_t, const Real*, Real*, int); \
  template void mean_pool_backward(const PoolShape&, std::int64_t, const Real*, Real*, int)
DDP_POOLS_OF(float);
DDP_POOLS_OF(BFloat16);

}  // namespace ddp::gpu
