// The two pools of a ResNet: the largest of each 3 x 3 window, and the mean of all pixels.
// Activations are (N, H, W, C). On the CPU; the GPU's (pool2d.cu) have the same arguments.
#pragma once

#include <cstdint>

namespace ddp {

/// Of one image.
struct PoolShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
};

/// Windows of 3 x 3 with stride 2 and padding 1. The padding is never the largest.
inline std::int64_t max_pooled(std::int64_t size) {
  return (size - 1) / 2 + 1;
}

/// y (N, P, Q, C) of x (N, H, W, C), P and Q as max_pooled() says. `chosen` (N, P, Q, C) receives
/// each window's place of its largest, 0 to 8, the first of equals.
void max_pool_forward(const PoolShape& shape, std::int64_t batch, const float* x, float* y,
                      std::uint8_t* chosen, int device = 0);
/// d_x (N, H, W, C), overwritten; of d_y, and d_more, or null, added to it.
void max_pool_backward(const PoolShape& shape, std::int64_t batch, const float* d_y,
                       const std::uint8_t* chosen, float* d_x, const float* d_more = nullptr,
                       int device = 0);

/// y (N, C) of x (N, H, W, C).
void mean_pool_forward(const PoolShape& shape, std::int64_t batch, const float* x, float* y,
                       int device = 0);
/// d_x (N, H, W, C), overwritten.
void mean_pool_backward(const PoolShape& shape, std::int64_t batch, const float* d_y, float* d_x,
                        int device = 0);

}  // namespace ddp
