#include "trainer/layers/pool2d.h"

#include <algorithm>

#include "trainer/layers/row_chunks.h"

namespace ddp {
namespace {

constexpr std::int64_t kWindow = 3;
constexpr std::int64_t kStride = 2;
constexpr std::int64_t kPadding = 1;

/// Calls body(place in the window, offset of that pixel) for those that are in the image.
template <class Body>
void for_window(const PoolShape& shape, std::int64_t p, std::int64_t q, const Body& body) {
  for (std::int64_t place = 0; place < kWindow * kWindow; ++place) {
    const auto h = p * kStride - kPadding + place / kWindow;
    const auto w = q * kStride - kPadding + place % kWindow;
    if (h >= 0 && h < shape.height && w >= 0 && w < shape.width) {
      body(static_cast<std::uint8_t>(place), (h * shape.width + w) * shape.channels);
    }
  }
}

std::int64_t pixels_of(const PoolShape& shape) {
  return shape.height * shape.width * shape.channels;
}

std::int64_t pooled_pixels_of(const PoolShape& shape) {
  return max_pooled(shape.height) * max_pooled(shape.width) * shape.channels;
}

/// `chosen` keeps the place in the window and not the pixel: one byte for each output.
void max_of_image(const PoolShape& shape, const float* x, float* y, std::uint8_t* chosen) {
  for (std::int64_t p = 0; p < max_pooled(shape.height); ++p) {
    for (std::int64_t q = 0; q < max_pooled(shape.width); ++q) {
      // Not by a lowest float to begin with: a window of NaNs keeps them, as PyTorch's does.
      bool first = true;
      for_window(shape, p, q, [&](std::uint8_t place, std::int64_t at) {
        for (std::int64_t c = 0; c < shape.channels; ++c) {
          if (first || x[at + c] > y[c]) {
            y[c] = x[at + c];
            chosen[c] = place;
          }
        }
        first = false;
      });
      y += shape.channels;
      chosen += shape.channels;
    }
  }
}

/// Windows overlap, so a pixel may be the largest of several: gradients are added up.
void spread_of_image(const PoolShape& shape, const float* d_y, const float* d_more,
                     const std::uint8_t* chosen, float* d_x) {
  std::fill_n(d_x, pixels_of(shape), 0.0F);
  for (std::int64_t p = 0; p < max_pooled(shape.height); ++p) {
    for (std::int64_t q = 0; q < max_pooled(shape.width); ++q) {
      for_window(shape, p, q, [&](std::uint8_t place, std::int64_t at) {
        for (std::int64_t c = 0; c < shape.channels; ++c) {
          const float d = d_more != nullptr ? d_y[c] + d_more[c] : d_y[c];
          d_x[at + c] += chosen[c] == place ? d : 0.0F;
        }
      });
      d_y += shape.channels;
      d_more += d_more != nullptr ? shape.channels : 0;
      chosen += shape.channels;
    }
  }
}

}  // namespace

void max_pool_forward(const PoolShape& shape, std::int64_t batch, const float* x, float* y,
                      std::uint8_t* chosen, int /*device*/) {
  for_row_chunks(batch, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    for (auto n = first; n < end; ++n) {
      const auto pooled = n * pooled_pixels_of(shape);
      max_of_image(shape, x + n * pixels_of(shape), y + pooled, chosen + pooled);
    }
  });
}

void max_pool_backward(const PoolShape& shape, std::int64_t batch, const float* d_y,
                       const std::uint8_t* chosen, float* d_x, const float* d_more,
                       int /*device*/) {
  for_row_chunks(batch, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    for (auto n = first; n < end; ++n) {
      const auto pooled = n * pooled_pixels_of(shape);
      spread_of_image(shape, d_y + pooled, d_more != nullptr ? d_more + pooled : nullptr,
                      chosen + pooled, d_x + n * pixels_of(shape));
    }
  });
}

/// Images are independent, and each is summed pixel by pixel: equal bits with any number of
/// threads.
void mean_pool_forward(const PoolShape& shape, std::int64_t batch, const float* x, float* y,
                       int /*device*/) {
  const auto pixels = shape.height * shape.width;
  const float share = 1.0F / static_cast<float>(pixels);
  for_row_chunks(batch, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    for (auto n = first; n < end; ++n) {
      float* mean = y + n * shape.channels;
      std::fill_n(mean, shape.channels, 0.0F);
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        const float* row = x + (n * pixels + pixel) * shape.channels;
        for (std::int64_t c = 0; c < shape.channels; ++c) {
          mean[c] += row[c];
        }
      }
      for (std::int64_t c = 0; c < shape.channels; ++c) {
        mean[c] *= share;
      }
    }
  });
}

void mean_pool_backward(const PoolShape& shape, std::int64_t batch, const float* d_y, float* d_x,
                        int /*device*/) {
  const auto pixels = shape.height * shape.width;
  const float share = 1.0F / static_cast<float>(pixels);
  for_row_chunks(batch, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    for (auto n = first; n < end; ++n) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        float* row = d_x + (n * pixels + pixel) * shape.channels;
        for (std::int64_t c = 0; c < shape.channels; ++c) {
          row[c] = d_y[n * shape.channels + c] * share;
        }
      }
    }
  });
}

}  // namespace ddp
