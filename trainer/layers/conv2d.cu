#include "trainer/layers/conv2d.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/convolution.h"
#include "trainer/layers/cuda/gpu_image_forms.h"
#include "trainer/layers/cuda/workspace.h"
#include "trainer/layers/number.h"

// cuDNN's convolutions, and what brings weights and their gradients from and to PyTorch's order.
namespace ddp::gpu {
namespace {

template <class Real>
constexpr cudnn::DataType kConvolutionType = sizeof(Real) == sizeof(float) ? cudnn::DataType::f32
                                                                           : cudnn::DataType::bf16;

/// A place in (K, R, R, stored), and the same weight's in (K, channels, R, R).
struct WeightOrder {
  unsigned stored, channels, taps;
  std::size_t count;  ///< K R R stored

  __device__ unsigned channel(std::size_t i) const { return static_cast<unsigned>(i % stored); }
  __device__ std::size_t in_torch(std::size_t i) const {
    const std::size_t tap = i / stored % taps;
    return (i / stored / taps * channels + channel(i)) * taps + tap;
  }
};

WeightOrder order_of(const Conv2dShape& shape, std::int64_t channels) {
  const auto taps = shape.kernel * shape.kernel;
  return {static_cast<unsigned>(shape.in_channels), static_cast<unsigned>(channels),
          static_cast<unsigned>(taps),
          static_cast<std::size_t>(shape.out_channels * taps * shape.in_channels)};
}

template <class Real>
__global__ void order_kernel(WeightOrder order, const float* from, Real* to) {
  const std::size_t i = global_thread();
  if (i < order.count) {
    to[i] = rounded<Real>(order.channel(i) < order.channels ? from[order.in_torch(i)] : 0.0F);
  }
}

/// A thread for each weight in PyTorch's order, in which it adds: what is added lies as cuDNN has
/// left it, and neighbours of it are read by threads of the same block.
template <class Gradient>
__global__ void add_gradient_kernel(WeightOrder order, std::size_t count, const Gradient* from,
                                    float* to) {
  const std::size_t i = global_thread();
  if (i < count) {
    const std::size_t tap = i % order.taps;
    const std::size_t channel = i / order.taps % order.channels;
    const std::size_t k = i / order.taps / order.channels;
    to[i] += widened(from[(k * order.taps + tap) * order.stored + channel]);
  }
}

template <class Real>
void add_weight_gradient(const ConvolutionWeightsOf<Real>& pass, const void* gradient,
                         cudnn::DataType type, int device) {
  // Without the channels that only the memory has: nobody learns those.
  const WeightOrder order = order_of(pass.shape, pass.channels);
  const std::size_t count = order.count / order.stored * order.channels;
  const Grid grid = thread_for_each(count);
  if (type == cudnn::DataType::f32) {
    launch(device, grid, add_gradient_kernel<float>, order, count,
           static_cast<const float*>(gradient), pass.d_weight);
  } else {
    launch(device, grid, add_gradient_kernel<BFloat16>, order, count,
           static_cast<const BFloat16*>(gradient), pass.d_weight);
  }
}

template <class Real>
Convolution plain(const Conv2dShape& shape, std::int64_t batch, ConvolutionPart part) {
  return {.shape = shape,
          .batch = batch,
          .part = part,
          .type = kConvolutionType<Real>,
          .weights_type = kConvolutionType<Real>};
}

/// All convolutions of a device share one workspace: they run one after the other.
void convolve_in_workspace(const Convolution& convolution, const ConvolutionArrays& arrays,
                           int device) {
  convolve(convolution, arrays, workspace(device, convolution_workspace(convolution, device)),
           device);
}

}  // namespace

template <class Real>
void order_weights(const OrderedWeightsOf<Real>& pass, int device) {
  // Channels that only the memory has get a weight of 0, so what lies in x there adds nothing.
  const WeightOrder order = order_of(pass.shape, pass.channels);
  launch(device, thread_for_each(order.count), order_kernel<Real>, order, pass.from, pass.to);
}

template <class Real>
void convolution_forward(const ConvolutionForwardOf<Real>& pass, int device) {
  convolve_in_workspace(plain<Real>(pass.shape, pass.batch, ConvolutionPart::forward),
                        {pass.x, pass.weight, pass.y}, device);
}

template <class Real>
void convolution_data(const ConvolutionDataOf<Real>& pass, int device) {
  convolve_in_workspace(plain<Real>(pass.shape, pass.batch, ConvolutionPart::data),
                        {pass.d_x, pass.weight, pass.d_y}, device);
}

/// The gradient comes out in the workspace, in f32 where cuDNN does so, else rounded.
template <class Real>
void convolution_weights(const ConvolutionWeightsOf<Real>& pass, int device) {
  Convolution convolution = plain<Real>(pass.shape, pass.batch, ConvolutionPart::weights);
  convolution.weights_type = cudnn::DataType::f32;
  if (!has_convolution(convolution, device)) {
    convolution.weights_type = kConvolutionType<Real>;
  }
  const WeightOrder order = order_of(pass.shape, pass.channels);
  // The engine's own part of the workspace begins behind the gradient, as aligned as the first.
  constexpr std::size_t kAligned = 256;
  const std::size_t gradient_bytes =
      (order.count * sizeof(float) + kAligned - 1) / kAligned * kAligned;
  auto* memory = static_cast<char*>(
      workspace(device, gradient_bytes + convolution_workspace(convolution, device)));
  convolve(convolution, {pass.x, memory, pass.d_y}, memory + gradient_bytes, device);
  add_weight_gradient(pass, memory, convolution.weights_type, device);
}

#define DDP_CONVOLUTIONS_OF(Real)                                            \
  template void order_weights(const OrderedWeightsOf<Real>&, int);           \
  template void convolution_forward(const ConvolutionForwardOf<Real>&, int); \
  template void convolution_data(const ConvolutionDataOf<Real>&, int);       \
  template void convolution_weights(const ConvolutionWeightsOf<Real>&, int)
DDP_CONVOLUTIONS_OF(float);
DDP_CONVOLUTIONS_OF(BFloat16);

}  // namespace ddp::gpu
