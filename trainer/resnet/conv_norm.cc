#include "trainer/resnet/conv_norm.h"

#include "trainer/layers/batch_norm.h"

namespace ddp {
namespace {

/// Batch norm sees each pixel of each image as one row: its statistics are per channel.
NormShape norm_shape(const Conv2dShape& shape, std::int64_t batch) {
  return {batch * shape.out_height() * shape.out_width(), shape.out_channels};
}

}  // namespace

/// The last batch of an epoch is smaller, so the memory of the largest one serves all.
float* reserve(Tensor& tensor, std::int64_t count) {
  if (tensor.size() < static_cast<std::size_t>(count)) {
    tensor = Tensor();  // first free, then take
    tensor = Tensor::empty({count});
  }
  return tensor.data<float>();
}

/// The names are torchvision's, so that weights can be compared and exchanged. The order is that of
/// torch.nn.Module: weight, norm's weight, norm's bias. backward() reports by these places.
ConvNorm::ConvNorm(ModelTensors& model, const std::string& conv, const std::string& norm,
                   const Conv2dShape& shape)
    : conv_(shape),
      weight_(model.parameters.size()),
      mean_(model.buffers.size()),
      batch_mean_(static_cast<std::size_t>(shape.out_channels)),
      batch_inverse_deviation_(static_cast<std::size_t>(shape.out_channels)) {
  const auto per_channel = [&shape](double value) {
    auto tensor = Tensor::zeros({shape.out_channels});
    tensor.fill(value);
    return tensor;
  };
  model.parameters.push_back(
      {conv + ".weight",
       Tensor::zeros({shape.out_channels, shape.in_channels, shape.kernel, shape.kernel}),
       {}});
  model.parameters.push_back({norm + ".weight", per_channel(1), {}});
  model.parameters.push_back({norm + ".bias", per_channel(0), {}});
  model.buffers.push_back({norm + ".running_mean", per_channel(0)});
  model.buffers.push_back({norm + ".running_var", per_channel(1)});
}

std::int64_t ConvNorm::input_size() const {
  return shape().height * shape().width * shape().in_channels;
}

std::int64_t ConvNorm::output_size() const {
  return shape().out_height() * shape().out_width() * shape().out_channels;
}

/// What backward() needs is kept here: the input is the caller's, and lives until then.
const float* ConvNorm::forward(const ModelTensors& model, const Pass& pass) {
  pass_ = pass;
  float* z = reserve(z_, pass.batch * output_size());
  float* y = reserve(y_, pass.batch * output_size());
  conv_.forward(pass.batch, pass.x, model.parameters[weight_].value.data<float>(), z);
  const NormForward norm = {.x = z,
                            .gamma = model.parameters[weight_ + 1].value.data<float>(),
                            .beta = model.parameters[weight_ + 2].value.data<float>(),
                            .residual = pass.residual,
                            .relu = pass.relu,
                            .running_mean = model.buffers[mean_].tensor.data<float>(),
                            .running_variance = model.buffers[mean_ + 1].tensor.data<float>(),
                            .mean = batch_mean_.data(),
                            .inverse_deviation = batch_inverse_deviation_.data(),
                            .y = y};
  const auto shape_of_norm = norm_shape(shape(), pass.batch);
  if (pass.training) {
    norm_forward(shape_of_norm, norm);
  } else {
    norm_infer(shape_of_norm, norm);
  }
  return y;
}

/// In the order in which gradients become complete, so that the first bucket leaves early. The
/// first convolution of the model has no `d_x`: nobody asks for the gradient of the images.
void ConvNorm::backward(const ModelTensors& model, float* d_y, float* d_z, float* d_x,
                        const GradientReady& ready) {
  const auto& weight = model.parameters[weight_];
  const auto& gamma = model.parameters[weight_ + 1];
  const auto& beta = model.parameters[weight_ + 2];
  norm_backward(norm_shape(shape(), pass_.batch),
                {.x = z_.data<float>(),
                 .y = pass_.relu ? y_.data<float>() : nullptr,
                 .gamma = gamma.value.data<float>(),
                 .mean = batch_mean_.data(),
                 .inverse_deviation = batch_inverse_deviation_.data(),
                 .d_y = d_y,
                 .d_gamma = gamma.gradient.data<float>(),
                 .d_beta = beta.gradient.data<float>(),
                 .d_x = d_z});
  ready(weight_ + 2);
  ready(weight_ + 1);
  conv_.backward_weights(pass_.batch, pass_.x, d_z, weight.gradient.data<float>());
  ready(weight_);
  if (d_x != nullptr) {
    conv_.backward_data(pass_.batch, d_z, weight.value.data<float>(), d_x);
  }
}

}  // namespace ddp
