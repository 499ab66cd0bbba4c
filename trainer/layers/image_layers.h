// Where the arithmetic of an image model is done: one table per kind of device, with equal meaning,
// as layers.h has it for language models. What each function does stands at the layer. Convolutions
// are made by make_convolution() (conv2d.h), which keeps what a CPU's library prepares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ddp/tensor.h"
#include "trainer/layers/batch_norm.h"
#include "trainer/layers/class_loss.h"
#include "trainer/layers/conv2d.h"
#include "trainer/layers/dense.h"
#include "trainer/layers/pixels.h"
#include "trainer/layers/pool2d.h"

namespace ddp {

/// Real: float, or BFloat16 on GPUs. `device` is the GPU's number; the CPU ignores it.
template <class Real>
struct ImageLayersOf {
  void (*normalise_pixels)(const NormalisedPixelsOf<Real>&, int device) = nullptr;
  void (*norm_forward)(const NormShape&, const NormForwardOf<Real>&, int device) = nullptr;
  void (*norm_infer)(const NormShape&, const NormForwardOf<Real>&, int device) = nullptr;
  void (*norm_backward)(const NormShape&, const NormBackwardOf<Real>&, int device) = nullptr;
  void (*max_pool_forward)(const PoolShape&, std::int64_t batch, const Real* x, Real* y,
                           std::uint8_t* chosen, int device) = nullptr;
  void (*max_pool_backward)(const PoolShape&, std::int64_t batch, const Real* d_y,
                            const std::uint8_t* chosen, Real* d_x, const Real* d_more,
                            int device) = nullptr;
  void (*mean_pool_forward)(const PoolShape&, std::int64_t batch, const Real* x, Real* y,
                            int device) = nullptr;
  void (*mean_pool_backward)(const PoolShape&, std::int64_t batch, const Real* d_y, Real* d_x,
                             int device) = nullptr;
  void (*dense_forward)(const DenseShape&, std::int64_t batch, const Real* x, const Real* weight,
                        const Real* bias, Real* y, int device) = nullptr;
  void (*dense_backward)(const DenseShape&, std::int64_t batch, const DenseBackwardOf<Real>&,
                         int device) = nullptr;
  void (*class_loss)(const ClassLossOf<Real>&, int device) = nullptr;
  /// to[i] = from[i], rounded to Real. Null where Real is what parameters are.
  void (*round)(const float* from, Real* to, std::size_t count, int device) = nullptr;
  // On GPUs alone: what make_convolution() is made of there.
  /// Throws DoNotRetry where cuDNN or cuBLASLt is missing.
  void (*require_libraries)(int device) = nullptr;
  void (*order_weights)(const OrderedWeightsOf<Real>&, int device) = nullptr;
  void (*convolution_forward)(const ConvolutionForwardOf<Real>&, int device) = nullptr;
  void (*convolution_data)(const ConvolutionDataOf<Real>&, int device) = nullptr;
  void (*convolution_weights)(const ConvolutionWeightsOf<Real>&, int device) = nullptr;
};

/// Those of the device. On GPUs from the runtime's GPU library, which must have been opened (a CUDA
/// tensor is there): throws ddp::DeviceError when that library lacks them. BFloat16: GPUs alone.
template <class Real>
const ImageLayersOf<Real>& image_layers(Device device);

/// Names and type of the tables in the GPU library.
inline constexpr char kGpuImageLayersF32[] = "ddprun_image_layers_f32";
inline constexpr char kGpuImageLayersBf16[] = "ddprun_image_layers_bf16";
template <class Real>
using GpuImageLayersFactory = const ImageLayersOf<Real>*();

}  // namespace ddp
