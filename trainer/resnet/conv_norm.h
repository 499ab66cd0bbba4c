// ConvNorm: the unit that a ResNet is made of: convolution, batch normalisation, and then the sum
// with a residual and ReLU where the place in the network wants them. Real: what activations are
// made of (layers/image_layers.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "ddp/snapshot.h"
#include "trainer/layers/image_layers.h"

namespace ddp {

/// The tensors of a model, in the order in which forward uses them.
struct ModelTensors {
  std::vector<Parameter> parameters;
  std::vector<NamedTensor> buffers;  ///< running statistics

  /// The buffers without their names, as DistributedDataParallel takes them.
  [[nodiscard]] std::vector<Tensor> buffer_tensors() const;
};

/// Told of a parameter (its place in ModelTensors) whose gradient is complete.
using GradientReady = std::function<void(std::size_t)>;

/// Memory for activations of any batch size: grows, and keeps what it has.
template <class Real>
Real* reserve(Tensor& tensor, std::int64_t count, Device device) {
  // The last batch of an epoch is smaller, so the memory of the largest one serves all.
  if (tensor.size() < static_cast<std::size_t>(count)) {
    tensor = Tensor();  // first free, then take
    tensor = Tensor::empty({count}, dtype_of<Real>, device);
  }
  return tensor.template data<Real>();
}

template <class Real>
class ConvNormOf {
 public:
  /// Adds "<conv>.weight", "<norm>.weight", "<norm>.bias", "<norm>.running_mean" and
  /// "<norm>.running_var" to the model, with torch's first values but for the convolution's weight,
  /// which stays 0. All of them on the device.
  ConvNormOf(ModelTensors& model, const std::string& conv, const std::string& norm,
             const Conv2dShape& shape, Device device);

  [[nodiscard]] const Conv2dShape& shape() const { return conv_->shape(); }
  /// Elements per image.
  [[nodiscard]] std::int64_t input_size() const;
  [[nodiscard]] std::int64_t output_size() const;

  struct Pass {
    std::int64_t batch = 0;
    const Real* x = nullptr;         ///< (N, H, W, C); stays valid until backward
    const Real* residual = nullptr;  ///< (N, P, Q, K), or null for none
    bool relu = true;
    bool training = true;
  };
  /// Returns y (N, P, Q, K), valid until the next call.
  const Real* forward(const ModelTensors& model, const Pass& pass);

  /// Of the last forward(), which was one of training. `d_y` (N, P, Q, K) becomes the gradient
  /// behind ReLU, the residual's, where there was one; `d_z` is scratch of the same size; `d_x` (N,
  /// H, W, C) is overwritten, and may be d_y's or d_more's memory; null: not wanted. `d_more`: see
  /// NormBackwardOf.
  struct Gradients {
    Real* d_y = nullptr;
    const Real* d_more = nullptr;
    Real* d_z = nullptr;
    Real* d_x = nullptr;
  };
  void backward(const ModelTensors& model, const Gradients& gradients, const GradientReady& ready);

 private:
  /// Whether backward takes bits in place of y: with a residual, on GPUs.
  [[nodiscard]] bool keeps_bits() const;

  Device device_;
  const ImageLayersOf<Real>* layers_;
  std::unique_ptr<ConvolutionOf<Real>> conv_;
  std::size_t weight_;  ///< index of the first parameter; gamma and beta follow
  std::size_t mean_;    ///< index of the first buffer; the variance follows
  Pass pass_;
  Tensor z_;         // (N, P, Q, K): behind the convolution
  Tensor y_;         // (N, P, Q, K)
  Tensor positive_;  // (N, P, Q, K / 8): see NormForwardOf; only where it is used
  Tensor batch_mean_;
  Tensor batch_inverse_deviation_;
};

extern template class ConvNormOf<float>;
extern template class ConvNormOf<BFloat16>;

}  // namespace ddp
