#include "trainer/resnet/passes.h"

namespace ddp {
namespace {

template <class Real>
class ResnetPassesOf final : public ResnetPasses {
 public:
  ResnetPassesOf(const ResnetShape& shape, std::uint64_t seed, Device device)
      : device_(device),
        layers_(&image_layers<Real>(device)),
        model_(shape, seed, device),
        sums_(Tensor::zeros({2}, DType::f64, device)) {}

  [[nodiscard]] ModelTensors& tensors() override { return model_.tensors(); }

  void forward(const ImageBatch& batch, bool training) override {
    const auto count = static_cast<std::int64_t>(batch.size());
    // First: a copy from the host waits for what is queued on a GPU.
    const auto* pixels = upload(batch.pixels(), pixels_);
    const auto* labels = upload(batch.labels(), labels_);
    const auto stored = stored_channels(kColours, device_);
    const auto points = batch.pixels().size() / kColours;
    Real* images = reserve<Real>(images_, static_cast<std::int64_t>(points) * stored, device_);
    layers_->normalise_pixels({pixels, images, points, static_cast<std::size_t>(stored)},
                              device_.index);
    scores_ = model_.forward(count, images, training);
    // In order with the kernels: the loss adds to what is there.
    sums_.zero();
    layers_->class_loss({.scores = scores_,
                         .targets = labels,
                         .sums = sums_.template data<double>(),
                         .with_gradient = training,
                         .rows = batch.size(),
                         .classes = static_cast<std::size_t>(model_.shape().classes)},
                        device_.index);
  }

  void backward(const GradientReady& ready) override { model_.backward(scores_, ready); }

  /// A copy to the host waits for the default stream, on which all of the step was queued.
  [[nodiscard]] ClassLoss loss() override {
    const auto sums = sums_.template to_vector<double>();
    return {sums[0], static_cast<std::int64_t>(sums[1])};
  }

 private:
  /// Into memory that stays: to free a GPU's memory waits for the GPU.
  template <class T>
  const T* upload(std::span<const T> from, Tensor& to) const {
    reserve<T>(to, static_cast<std::int64_t>(from.size()), device_);
    to.view(0, from.size()).copy_from_host(from.data());
    return to.template data<T>();
  }

  Device device_;
  const ImageLayersOf<Real>* layers_;
  ResnetOf<Real> model_;
  Tensor pixels_;  // (N, H, W, 3)
  Tensor labels_;  // (N)
  Tensor images_;  // (N, H, W, stored channels)
  Tensor sums_;    // (2): the losses' sum, and how many scores are right
  Real* scores_ = nullptr;
};

}  // namespace

/// The only place that knows which numbers a device computes with.
std::unique_ptr<ResnetPasses> make_resnet_passes(const ResnetShape& shape, std::uint64_t seed,
                                                 Device device) {
  if (device.is_cpu()) {
    return std::make_unique<ResnetPassesOf<float>>(shape, seed, device);
  }
  return std::make_unique<ResnetPassesOf<BFloat16>>(shape, seed, device);
}

}  // namespace ddp
