// ResidualBlock (He, Zhang, Ren, Sun 2015): two or three units, and around them the identity or a
// 1 x 1 convolution where the size changes. The stride of a block of three is in its 3 x 3
// convolution, as in torchvision ("ResNet v1.5").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/resnet/conv_norm.h"

namespace ddp {

struct BlockShape {
  std::int64_t in_channels = 0;
  std::int64_t width = 0;  ///< channels of the 3 x 3 convolutions
  std::int64_t side = 0;   ///< height and width of the input
  std::int64_t stride = 1;
  bool bottleneck = false;  ///< 1x1, 3x3, 1x1 with four times the channels; else 3x3, 3x3
};

/// Scratch of backward, each as large as the largest activation of the network. The gradient of the
/// activation that backward has reached is a sum of two, which whoever reads them next adds up: of
/// the residual's way, and of the path's.
template <class Real>
struct BackwardScratch {
  Real* gradient = nullptr;
  Real* inside = nullptr;
  Real* conv = nullptr;
};

template <class Real>
class ResidualBlockOf {
 public:
  /// Adds the tensors of its units to the model, named "<name>.conv1.weight" and so on, in the
  /// reverse of the order in which backward() reports their gradients.
  ResidualBlockOf(ModelTensors& model, const std::string& name, const BlockShape& shape,
                  Device device);

  [[nodiscard]] std::int64_t out_channels() const;
  [[nodiscard]] std::int64_t out_side() const;
  /// Elements per image of its largest activation, input and output included.
  [[nodiscard]] std::int64_t largest() const;

  /// x (N, H, W, C) stays valid until backward; returns the output, valid until the next call.
  const Real* forward(const ModelTensors& model, std::int64_t batch, const Real* x, bool training);
  /// scratch.gradient and d_more (scratch.inside, or null): of the output. Then scratch.gradient
  /// and scratch.inside are those of the input.
  void backward(const ModelTensors& model, const BackwardScratch<Real>& scratch, const Real* d_more,
                const GradientReady& ready);

 private:
  std::vector<ConvNormOf<Real>> path_;
  std::optional<ConvNormOf<Real>> shortcut_;
};

extern template class ResidualBlockOf<float>;
extern template class ResidualBlockOf<BFloat16>;

}  // namespace ddp
