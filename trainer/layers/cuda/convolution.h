// A convolution, or one of its gradients, by cuDNN's graphs. What it is not: the layer (conv2d.cu),
// which brings weights and their gradients from and to PyTorch's order.
//
// Letters as in conv2d.h. Weights lie as (K, R, R, C) here: a pixel's channels are neighbours in
// every array, which is what the tensor cores' kernels read. C is a multiple of 8 where they are to
// be fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "trainer/layers/conv2d.h"
#include "trainer/layers/cuda/cudnn_abi.h"

namespace ddp::gpu {

enum class ConvolutionPart : std::uint8_t {
  forward,  ///< y of x and w
  data,     ///< x's gradient of y's and w
  weights,  ///< w's gradient of x and y's
};

struct Convolution {
  Conv2dShape shape;
  std::int64_t batch = 0;
  ConvolutionPart part = ConvolutionPart::forward;
  cudnn::DataType type = cudnn::DataType::bf16;  ///< of x, y and w; sums are f32
  /// Of w where it is the result.
  cudnn::DataType weights_type = cudnn::DataType::bf16;
};

/// Device memory: the two that are read, and the one that is overwritten.
struct ConvolutionArrays {
  const void* x = nullptr;  ///< (N, H, W, C), or its gradient
  const void* w = nullptr;  ///< (K, R, R, C), or its gradient
  const void* y = nullptr;  ///< (N, P, Q, K), or its gradient
};

/// Of the workspace, beside what cuDNN asks for; at most so much is given to an engine.
inline constexpr std::size_t kConvolutionWorkspaceMax = std::size_t{512} << 20;

/// Opens cuDNN for the device, so that a missing one shows before anything is trained. Throws
/// DoNotRetry (cudnn_library.h), or DeviceError where it does not begin.
void require_convolutions(int device);
/// Whether cuDNN has an engine for it that gives equal bits for equal inputs, and in f32 one
/// without tensor cores. Asks once for each convolution, and keeps the answer. Throws DeviceError
/// where cuDNN fails, DoNotRetry where there is none.
bool has_convolution(const Convolution& convolution, int device);
/// Bytes that its engine works in.
std::size_t convolution_workspace(const Convolution& convolution, int device);
/// Queues it on the default stream. `memory`: as many bytes of the device as
/// convolution_workspace() says. Throws DeviceError, also where there is no engine.
void convolve(const Convolution& convolution, const ConvolutionArrays& arrays, void* memory,
              int device);
/// "3 x 3 convolution of 64 to 128 channels ...", for messages.
std::string text_of(const Convolution& convolution);

}  // namespace ddp::gpu
