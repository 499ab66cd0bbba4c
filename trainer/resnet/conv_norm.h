// ConvNorm: the unit that a ResNet is made of: convolution, batch normalisation, and then the sum
// with a residual and ReLU where the place in the network wants them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "ddp/snapshot.h"
#include "trainer/layers/conv2d.h"

namespace ddp {

/// The tensors of a model, in the order in which forward uses them.
struct ModelTensors {
  std::vector<Parameter> parameters;
  std::vector<NamedTensor> buffers;  ///< running statistics
};

/// Told of a parameter (its place in ModelTensors) whose gradient is complete.
using GradientReady = std::function<void(std::size_t)>;

/// Memory for activations of any batch size: grows, and keeps what it has.
float* reserve(Tensor& tensor, std::int64_t count);

class ConvNorm {
 public:
  /// Adds "<conv>.weight", "<norm>.weight", "<norm>.bias", "<norm>.running_mean" and
  /// "<norm>.running_var" to the model, with torch's first values but for the convolution's weight,
  /// which stays 0.
  ConvNorm(ModelTensors& model, const std::string& conv, const std::string& norm,
           const Conv2dShape& shape);

  [[nodiscard]] const Conv2dShape& shape() const { return conv_.shape(); }
  /// Elements per image.
  [[nodiscard]] std::int64_t input_size() const;
  [[nodiscard]] std::int64_t output_size() const;

  struct Pass {
    std::int64_t batch = 0;
    const float* x = nullptr;         ///< (N, H, W, C); stays valid until backward
    const float* residual = nullptr;  ///< (N, P, Q, K), or null for none
    bool relu = true;
    bool training = true;
  };
  /// Returns y (N, P, Q, K), valid until the next call.
  const float* forward(const ModelTensors& model, const Pass& pass);

  /// Of the last forward(), which was one of training. `d_y` (N, P, Q, K) becomes the gradient
  /// behind ReLU, the residual's; `d_z` is scratch of the same size; `d_x` (N, H, W, C) is
  /// overwritten, and may be d_y's memory; null: not wanted.
  void backward(const ModelTensors& model, float* d_y, float* d_z, float* d_x,
                const GradientReady& ready);

 private:
  Conv2d conv_;
  std::size_t weight_;  ///< index of the first parameter; gamma and beta follow
  std::size_t mean_;    ///< index of the first buffer; the variance follows
  Pass pass_;
  Tensor z_;  // (N, P, Q, K): behind the convolution
  Tensor y_;  // (N, P, Q, K)
  std::vector<float> batch_mean_;
  std::vector<float> batch_inverse_deviation_;
};

}  // namespace ddp
