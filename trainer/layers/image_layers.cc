#include "trainer/layers/image_layers.h"

#include <memory>

#include "ddp/error.h"
#include "trainer/layers/gpu_library.h"
#include "trainer/layers/winograd_convolution.h"

namespace ddp {
namespace {

/// By name, as the GPU library's: a place that is forgotten would be null. A CPU needs no `round`,
/// and make_convolution() knows its convolutions.
const ImageLayersOf<float>& cpu_image_layers() {
  static constexpr ImageLayersOf<float> kLayers{.normalise_pixels = normalise_pixels,
                                                .norm_forward = norm_forward,
                                                .norm_infer = norm_infer,
                                                .norm_backward = norm_backward,
                                                .max_pool_forward = max_pool_forward,
                                                .max_pool_backward = max_pool_backward,
                                                .mean_pool_forward = mean_pool_forward,
                                                .mean_pool_backward = mean_pool_backward,
                                                .dense_forward = dense_forward,
                                                .dense_backward = dense_backward,
                                                .class_loss = class_loss};
  return kLayers;
}

/// Keeps the weights as its kernels read them, from forward() to backward_data().
template <class Real>
class GpuConvolution final : public ConvolutionOf<Real> {
 public:
  GpuConvolution(const Conv2dShape& shape, Device device)
      : shape_(shape), stored_(shape), device_(device.index), layers_(&image_layers<Real>(device)) {
    // Here, and not in the first step: a training that cannot begin says so before all else.
    layers_->require_libraries(device_);
    // Only the first convolution of a network has another number: images have three colours.
    stored_.in_channels = stored_channels(shape.in_channels, device);
    weight_ = Tensor::empty({shape.out_channels, shape.kernel, shape.kernel, stored_.in_channels},
                            dtype_of<Real>, device);
  }

  [[nodiscard]] const Conv2dShape& shape() const override { return shape_; }

  void forward(std::int64_t batch, const Real* x, const float* weight, Real* y) override {
    // The optimizer, a snapshot or another rank may have changed them since.
    layers_->order_weights({weight, own_weight(), stored_, shape_.in_channels}, device_);
    layers_->convolution_forward({stored_, batch, x, own_weight(), y}, device_);
  }
  /// The weights of forward() are what the gradient is of, whatever they may have become since.
  void backward_data(std::int64_t batch, const Real* d_y, const float* /*weight*/,
                     Real* d_x) override {
    layers_->convolution_data({stored_, batch, d_y, own_weight(), d_x}, device_);
  }
  void backward_weights(std::int64_t batch, const Real* x, const Real* d_y,
                        float* d_weight) override {
    layers_->convolution_weights({stored_, batch, x, d_y, d_weight, shape_.in_channels}, device_);
  }

 private:
  [[nodiscard]] Real* own_weight() const { return weight_.template data<Real>(); }

  Conv2dShape shape_;
  Conv2dShape stored_;  // with the channels that x has
  int device_;
  const ImageLayersOf<Real>* layers_;
  Tensor weight_;  // (K, R, R, stored)
};

}  // namespace

// Each kind of numbers has a name of its own in the library (gpu_layers.cc).
template <>
const ImageLayersOf<float>& image_layers<float>(Device device) {
  return device.is_cpu() ? cpu_image_layers()
                         : *reinterpret_cast<GpuImageLayersFactory<float>*>(
                               gpu_library_symbol(kGpuImageLayersF32))();
}

template <>
const ImageLayersOf<BFloat16>& image_layers<BFloat16>(Device device) {
  if (device.is_cpu()) {
    throw InvalidArgument("image layers in bf16 are for GPUs; a CPU computes in f32");
  }
  return *reinterpret_cast<GpuImageLayersFactory<BFloat16>*>(
      gpu_library_symbol(kGpuImageLayersBf16))();
}

/// Floats on a GPU are for comparisons: its tensor cores, which make it fast, take bf16.
template <>
std::unique_ptr<ConvolutionOf<float>> make_convolution<float>(const Conv2dShape& shape,
                                                              Device device) {
  if (device.is_cpu()) {
    if (suits_winograd(shape)) {
      return std::make_unique<WinogradConvolution>(shape, cpu_layers());
    }
    return std::make_unique<Conv2d>(shape);
  }
  return std::make_unique<GpuConvolution<float>>(shape, device);
}

template <>
std::unique_ptr<ConvolutionOf<BFloat16>> make_convolution<BFloat16>(const Conv2dShape& shape,
                                                                    Device device) {
  return std::make_unique<GpuConvolution<BFloat16>>(shape, device);
}

}  // namespace ddp
