// Resnet: the networks of "Deep Residual Learning for Image Recognition" (He, Zhang, Ren, Sun 2015)
// as torchvision has them, with its names of tensors. Batches of any size. Real: float, or BFloat16
// on GPUs, what activations and their gradients are made of; parameters and statistics are floats.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/layers/pool2d.h"
#include "trainer/resnet/conv_norm.h"
#include "trainer/resnet/residual_block.h"

namespace ddp {

/// What comes before the blocks.
enum class Stem : std::uint8_t {
  small,  ///< 3 x 3 convolution, no pool: for images of 32 x 32 (the CIFAR form)
  large,  ///< 7 x 7 convolution of stride 2, then the 3 x 3 pool: the paper's for ImageNet
};

struct ResnetShape {
  int depth = 18;  ///< 18 or 50
  Stem stem = Stem::small;
  std::int64_t side = 32;  ///< height and width of an image
  std::int64_t classes = 10;
};

template <class Real>
class ResnetOf {
 public:
  /// First weights depend on the seed alone: convolutions normal by the fan out (He et al.), the
  /// last layer as torch.nn.Linear. Throws InvalidArgument on another depth.
  ResnetOf(const ResnetShape& shape, std::uint64_t seed, Device device = {});

  [[nodiscard]] const ResnetShape& shape() const { return shape_; }
  [[nodiscard]] ModelTensors& tensors() { return model_; }

  /// images (N, H, W, stored_channels(3)), N at least 1, valid until backward. Returns scores (N,
  /// classes), valid until the next call and the caller's to overwrite. In training the batch's
  /// statistics count and move the running ones.
  Real* forward(std::int64_t batch, const Real* images, bool training);

  /// Of the last forward(), one of training. Adds to the gradients, and says of each when it is
  /// complete, last layer first. d_scores (N, classes).
  void backward(const Real* d_scores, const GradientReady& ready);

 private:
  void add_blocks();
  void set_first_weights(std::uint64_t seed);
  BackwardScratch<Real> reserve_scratch();
  /// What the last layer computes with: its parameter, or a copy rounded to Real.
  const Real* classifier(std::size_t index, Tensor& copy) const;

  ResnetShape shape_;
  Device device_;
  const ImageLayersOf<Real>* layers_;
  ModelTensors model_;
  std::vector<ConvNormOf<Real>> stem_;  ///< one; made in the constructor's body
  std::vector<ResidualBlockOf<Real>> blocks_;
  std::size_t classifier_ = 0;  ///< index of fc.weight; fc.bias follows
  std::int64_t batch_ = 0;
  Tensor pooled_;  ///< (N, P, Q, 64): behind the stem's pool
  Tensor chosen_;
  Tensor means_;   ///< (N, F)
  Tensor scores_;  ///< (N, classes)
  Tensor d_means_;
  Tensor scratch_;
  Tensor weight_, bias_;  ///< the classifier's, as Real
};

using Resnet = ResnetOf<float>;
extern template class ResnetOf<float>;
extern template class ResnetOf<BFloat16>;

}  // namespace ddp
