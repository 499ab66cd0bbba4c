// A convolution without bias, forward and backward, behind ConvolutionOf: on the CPU in f32 Conv2d
// by oneDNN, or WinogradConvolution (winograd_convolution.h); on GPUs by cuDNN (conv2d.cu).
//
// Letters: N images, H x W pixels, C input channels, K output channels, R x R kernel; P x Q output.
// Activations are (N, H, W, C): a pixel's channels are neighbours, which suits the vector units and
// needs no reordering between layers. Weights are (K, C, R, R), as PyTorch has them, and f32. Real:
// what activations are made of (layers.h).
#pragma once

#include <cstdint>
#include <memory>

#include "ddp/tensor.h"

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

/// One convolution of a model.
template <class Real>
class ConvolutionOf {
 public:
  virtual ~ConvolutionOf() = default;

  [[nodiscard]] virtual const Conv2dShape& shape() const = 0;

  /// y (N, P, Q, K) of x (N, H, W, C).
  virtual void forward(std::int64_t batch, const Real* x, const float* weight, Real* y) = 0;
  /// d_x (N, H, W, C) of d_y (N, P, Q, K). On a GPU with the weights of the last forward().
  virtual void backward_data(std::int64_t batch, const Real* d_y, const float* weight,
                             Real* d_x) = 0;
  /// Adds to d_weight (K, C, R, R).
  virtual void backward_weights(std::int64_t batch, const Real* x, const Real* d_y,
                                float* d_weight) = 0;
};

/// WinogradConvolution where it suits, or Conv2d; on GPUs cuDNN's, whose kernels want whole packs
/// of channels: there x has stored_channels(), and those behind C are 0.
template <class Real>
std::unique_ptr<ConvolutionOf<Real>> make_convolution(const Conv2dShape& shape, Device device);

inline std::int64_t stored_channels(std::int64_t channels, Device device) {
  constexpr std::int64_t kPack = 8;
  return device.is_cuda() ? (channels + kPack - 1) / kPack * kPack : channels;
}

/// Keeps what oneDNN prepared for the batch sizes that came last. Not thread-safe; oneDNN itself
/// uses all of OpenMP's threads. Throws ddp::Error with oneDNN's reason where it fails.
class Conv2d final : public ConvolutionOf<float> {
 public:
  explicit Conv2d(const Conv2dShape& shape);
  ~Conv2d() override;
  Conv2d(Conv2d&&) noexcept;
  Conv2d& operator=(Conv2d&&) noexcept;

  [[nodiscard]] const Conv2dShape& shape() const override;

  void forward(std::int64_t batch, const float* x, const float* weight, float* y) override;
  void backward_data(std::int64_t batch, const float* d_y, const float* weight,
                     float* d_x) override;
  void backward_weights(std::int64_t batch, const float* x, const float* d_y,
                        float* d_weight) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What a GPU computes, for make_convolution() and the tests. `shape` has the stored channels, a
// multiple of 8; weights lie as (K, R, R, C).

/// to (K, R, R, stored) of from (K, channels, R, R), rounded; 0 behind `channels`.
template <class Real>
struct OrderedWeightsOf {
  const float* from = nullptr;
  Real* to = nullptr;
  Conv2dShape shape;
  std::int64_t channels = 0;
};
template <class Real>
struct ConvolutionForwardOf {
  Conv2dShape shape;
  std::int64_t batch = 0;
  const Real* x = nullptr;
  const Real* weight = nullptr;
  Real* y = nullptr;
};
template <class Real>
struct ConvolutionDataOf {
  Conv2dShape shape;
  std::int64_t batch = 0;
  const Real* d_y = nullptr;
  const Real* weight = nullptr;
  Real* d_x = nullptr;
};
template <class Real>
struct ConvolutionWeightsOf {
  Conv2dShape shape;
  std::int64_t batch = 0;
  const Real* x = nullptr;
  const Real* d_y = nullptr;
  float* d_weight = nullptr;  ///< (K, channels, R, R), added to
  std::int64_t channels = 0;
};

}  // namespace ddp
