// Conv2d: a convolution without bias, forward and backward, by oneDNN. f32 on the CPU.
//
// Letters: N images, H x W pixels, C input channels, K output channels, R x R kernel; P x Q output.
// Activations are (N, H, W, C): a pixel's channels are neighbours, which suits the vector units and
// needs no reordering between layers. Weights are (K, C, R, R), as PyTorch has them.
#pragma once

#include <cstdint>
#include <memory>

namespace ddp {

struct Conv2dShape {
  std::int64_t in_channels = 0;   ///< C
  std::int64_t out_channels = 0;  ///< K
  std::int64_t height = 0;        ///< H
  std::int64_t width = 0;         ///< W
  std::int64_t kernel = 1;        ///< R
  std::int64_t stride = 1;
  std::int64_t padding = 0;

  [[nodiscard]] std::int64_t out_height() const {
    return (height + 2 * padding - kernel) / stride + 1;
  }
  [[nodiscard]] std::int64_t out_width() const {
    return (width + 2 * padding - kernel) / stride + 1;
  }
};

/// Keeps what oneDNN prepared for the batch sizes that came last. Not thread-safe; oneDNN itself
/// uses all of OpenMP's threads. Throws ddp::Error with oneDNN's reason where it fails.
class Conv2d {
 public:
  explicit Conv2d(const Conv2dShape& shape);
  ~Conv2d();
  Conv2d(Conv2d&&) noexcept;
  Conv2d& operator=(Conv2d&&) noexcept;

  [[nodiscard]] const Conv2dShape& shape() const;

  /// y (N, P, Q, K) of x (N, H, W, C).
  void forward(std::int64_t batch, const float* x, const float* weight, float* y);
  /// d_x (N, H, W, C) of d_y (N, P, Q, K).
  void backward_data(std::int64_t batch, const float* d_y, const float* weight, float* d_x);
  /// Adds to d_weight (K, C, R, R).
  void backward_weights(std::int64_t batch, const float* x, const float* d_y, float* d_weight);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
