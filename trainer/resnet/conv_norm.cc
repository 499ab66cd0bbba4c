#include "trainer/resnet/conv_norm.h"

namespace ddp {
namespace {

/// Batch norm sees each pixel of each image as one row: its statistics are per channel.
NormShape norm_shape(const Conv2dShape& shape, std::int64_t batch) {
  return {batch * shape.out_height() * shape.out_width(), shape.out_channels};
}

}  // namespace

/// Handles: whoever changes them changes the model's.
std::vector<Tensor> ModelTensors::buffer_tensors() const {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : buffers) {
    tensors.push_back(tensor);
  }
  return tensors;
}

/// The names are torchvision's, so that weights can be compared and exchanged. The order is weight,
/// norm's weight, norm's bias: the reverse of that in which backward() reports by these places.
template <class Real>
ConvNormOf<Real>::ConvNormOf(ModelTensors& model, const std::string& conv, const std::string& norm,
                             const Conv2dShape& shape, Device device)
    : device_(device),
      layers_(&image_layers<Real>(device)),
      conv_(make_convolution<Real>(shape, device)),
      weight_(model.parameters.size()),
      mean_(model.buffers.size()),
      batch_mean_(Tensor::zeros({shape.out_channels}, DType::f32, device)),
      batch_inverse_deviation_(Tensor::zeros({shape.out_channels}, DType::f32, device)) {
  const auto per_channel = [&](double value) {
    auto tensor = Tensor::zeros({shape.out_channels}, DType::f32, device);
    tensor.fill(value);
    return tensor;
  };
  model.parameters.push_back(
      {conv + ".weight",
       Tensor::zeros({shape.out_channels, shape.in_channels, shape.kernel, shape.kernel},
                     DType::f32, device),
       {}});
  model.parameters.push_back({norm + ".weight", per_channel(1), {}});
  model.parameters.push_back({norm + ".bias", per_channel(0), {}});
  model.buffers.push_back({norm + ".running_mean", per_channel(0)});
  model.buffers.push_back({norm + ".running_var", per_channel(1)});
}

/// By the image's own channels. Where a GPU stores more of them the memory is the images', which
/// are not reserved by this.
template <class Real>
std::int64_t ConvNormOf<Real>::input_size() const {
  return shape().height * shape().width * shape().in_channels;
}

template <class Real>
std::int64_t ConvNormOf<Real>::output_size() const {
  return shape().out_height() * shape().out_width() * shape().out_channels;
}

/// Without a residual ReLU's mask follows from x, and on a CPU y is in the cache.
template <class Real>
bool ConvNormOf<Real>::keeps_bits() const {
  constexpr std::int64_t kBits = 8;
  return pass_.training && sizeof(Real) == sizeof(BFloat16) && pass_.relu &&
         pass_.residual != nullptr && shape().out_channels % kBits == 0;
}

/// What backward() needs is kept here: the input is the caller's, and lives until then.
template <class Real>
const Real* ConvNormOf<Real>::forward(const ModelTensors& model, const Pass& pass) {
  pass_ = pass;
  Real* z = reserve<Real>(z_, pass.batch * output_size(), device_);
  Real* y = reserve<Real>(y_, pass.batch * output_size(), device_);
  conv_->forward(pass.batch, pass.x, model.parameters[weight_].value.template data<float>(), z);
  const NormForwardOf<Real> norm = {
      .x = z,
      .gamma = model.parameters[weight_ + 1].value.template data<float>(),
      .beta = model.parameters[weight_ + 2].value.template data<float>(),
      .residual = pass.residual,
      .relu = pass.relu,
      .running_mean = model.buffers[mean_].tensor.template data<float>(),
      .running_variance = model.buffers[mean_ + 1].tensor.template data<float>(),
      .mean = batch_mean_.template data<float>(),
      .inverse_deviation = batch_inverse_deviation_.template data<float>(),
      .y = y,
      .positive = keeps_bits()
                      ? reserve<std::uint8_t>(positive_, pass.batch * output_size() / 8, device_)
                      : nullptr};
  const auto forward = pass.training ? layers_->norm_forward : layers_->norm_infer;
  forward(norm_shape(shape(), pass.batch), norm, device_.index);
  return y;
}

/// In the order in which gradients become complete, so that the first bucket leaves early. The
/// first convolution of the model has no `d_x`: nobody asks for the gradient of the images.
template <class Real>
void ConvNormOf<Real>::backward(const ModelTensors& model, const Gradients& gradients,
                                const GradientReady& ready) {
  const auto& weight = model.parameters[weight_];
  const auto& gamma = model.parameters[weight_ + 1];
  const auto& beta = model.parameters[weight_ + 2];
  // With a residual only y tells the sign. Without one a GPU need not read y.
  const bool relu_of_x = pass_.relu && pass_.residual == nullptr;
  layers_->norm_backward(norm_shape(shape(), pass_.batch),
                         {.x = z_.template data<Real>(),
                          .y = pass_.relu ? y_.template data<Real>() : nullptr,
                          .gamma = gamma.value.template data<float>(),
                          .mean = batch_mean_.template data<float>(),
                          .inverse_deviation = batch_inverse_deviation_.template data<float>(),
                          .d_y = gradients.d_y,
                          .d_gamma = gamma.gradient.template data<float>(),
                          .d_beta = beta.gradient.template data<float>(),
                          .d_x = gradients.d_z,
                          .d_more = gradients.d_more,
                          .beta = relu_of_x ? beta.value.template data<float>() : nullptr,
                          .positive = keeps_bits() ? positive_.data<std::uint8_t>() : nullptr},
                         device_.index);
  ready(weight_ + 2);
  ready(weight_ + 1);
  conv_->backward_weights(pass_.batch, pass_.x, gradients.d_z,
                          weight.gradient.template data<float>());
  ready(weight_);
  if (gradients.d_x != nullptr) {
    conv_->backward_data(pass_.batch, gradients.d_z, weight.value.template data<float>(),
                         gradients.d_x);
  }
}

template class ConvNormOf<float>;
template class ConvNormOf<BFloat16>;

}  // namespace ddp
