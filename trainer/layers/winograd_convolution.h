// WinogradConvolution: winograd.h's arithmetic behind ConvolutionOf, and the rule for which
// convolutions a CPU does so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/layers/conv2d.h"
#include "trainer/layers/layers.h"
#include "trainer/layers/winograd.h"

namespace ddp {

/// What WinogradConvolution can do, all of which it does faster than Conv2d: measured for training
/// with 32 to 512 channels and images of 1 x 1 to 32 x 32 pixels, from a batch of 4 on, with AVX2
/// and without.
bool suits_winograd(const Conv2dShape& shape);

/// Keeps nothing between calls but its scratch memory. Results have the same bits with any number
/// of threads, and those of an image do not depend on the others of its batch. Not thread-safe; it
/// uses all of OpenMP's threads.
class WinogradConvolution final : public ConvolutionOf<float> {
 public:
  /// Throws InvalidArgument unless suits_winograd(shape). `layers`: of a level of x86-64
  /// (layers.h).
  WinogradConvolution(const Conv2dShape& shape, const Layers& layers);

  [[nodiscard]] const Conv2dShape& shape() const override { return shape_; }

  void forward(std::int64_t batch, const float* x, const float* weight, float* y) override;
  void backward_data(std::int64_t batch, const float* d_y, const float* weight,
                     float* d_x) override;
  void backward_weights(std::int64_t batch, const float* x, const float* d_y,
                        float* d_weight) override;

 private:
  struct alignas(64) Line {
    float floats[16];
  };

  [[nodiscard]] WinogradShape winograd_shape(std::int64_t batch) const;
  void run(WinogradForward& pass);
  /// At least so many floats; grows and never shrinks.
  float* scratch(std::size_t floats);

  Conv2dShape shape_;
  const Layers* layers_;
  std::vector<Line> scratch_;
};

}  // namespace ddp
