// Resnet: the networks of "Deep Residual Learning for Image Recognition" (He, Zhang, Ren, Sun 2015)
// as torchvision has them, with its names of tensors. f32 on the CPU, batches of any size.
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

class Resnet {
 public:
  /// First weights depend on the seed alone: convolutions normal by the fan out (He et al.), the
  /// last layer as torch.nn.Linear. Throws InvalidArgument on another depth.
  Resnet(const ResnetShape& shape, std::uint64_t seed);

  [[nodiscard]] const ResnetShape& shape() const { return shape_; }
  [[nodiscard]] ModelTensors& tensors() { return model_; }

  /// images (N, H, W, 3), N at least 1, valid until backward. Returns scores (N, classes), valid
  /// until the next call and the caller's to overwrite. In training the batch's statistics count
  /// and move the running ones.
  float* forward(std::int64_t batch, const float* images, bool training);

  /// Of the last forward(), one of training. Adds to the gradients, and says of each when it is
  /// complete, last layer first. d_scores (N, classes).
  void backward(const float* d_scores, const GradientReady& ready);

 private:
  void add_blocks();
  void set_first_weights(std::uint64_t seed);
  BackwardScratch reserve_scratch();

  ResnetShape shape_;
  ModelTensors model_;
  std::vector<ConvNorm> stem_;  ///< one; made in the constructor's body
  std::vector<ResidualBlock> blocks_;
  std::size_t classifier_ = 0;  ///< index of fc.weight; fc.bias follows
  std::int64_t batch_ = 0;
  Tensor pooled_;  ///< (N, P, Q, 64): behind the stem's pool
  std::vector<std::uint8_t> chosen_;
  Tensor means_;   ///< (N, F)
  Tensor scores_;  ///< (N, classes)
  Tensor d_means_;
  Tensor scratch_;
};

}  // namespace ddp
