#include "trainer/adamw.h"

#include <algorithm>
#include <cmath>

namespace ddp {

AdamW::AdamW(std::span<const Parameter> parameters, const Layers& layers, AdamWOptions options)
    : parameters_(parameters), layers_(&layers), options_(options) {
  for (const auto& [name, value, gradient] : parameters_) {
    moments_.push_back({Tensor::zeros(value.shape(), value.dtype(), value.device()),
                        Tensor::zeros(value.shape(), value.dtype(), value.device())});
  }
}

/// Parameter by parameter, in their order, in double: the same bits on every rank, which all have
/// the same gradients. So every rank clips by the same factor without asking the others.
double AdamW::gradient_norm() const {
  double squares = 0;
  for (const auto& [name, value, gradient] : parameters_) {
    squares +=
        layers_->sum_of_squares(gradient.data<float>(), gradient.size(), gradient.device().index);
  }
  return std::sqrt(squares);
}

void AdamW::step(std::int64_t step, double rate, double gradient_norm) const {
  // torch's: a hair more than the norm, so that a norm of 0 divides nothing.
  const double factor =
      options_.clip > 0 ? std::min(1.0, options_.clip / (gradient_norm + 1e-6)) : 1.0;
  const auto t = static_cast<double>(step);
  AdamWUpdate update{
      .gradient_factor = static_cast<float>(factor),
      .beta1_rest = static_cast<float>(1 - options_.beta1),
      .beta2 = static_cast<float>(options_.beta2),
      .beta2_rest = static_cast<float>(1 - options_.beta2),
      .step_size = static_cast<float>(rate / (1 - std::pow(options_.beta1, t))),
      .root_correction = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, t))),
      .epsilon = static_cast<float>(options_.epsilon)};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, value, gradient] = parameters_[i];
    // Decay pulls matrices and embeddings alone; biases and norms keep their scale.
    const double decay = value.shape().size() >= 2 ? options_.weight_decay : 0;
    update.value = value.data<float>();
    update.gradient = gradient.data<float>();
    update.mean = moments_[i].mean.data<float>();
    update.square = moments_[i].square.data<float>();
    update.count = value.size();
    update.keep = static_cast<float>(1 - rate * decay);
    layers_->adamw_update(update, value.device().index);
  }
}

/// The corrections of the bias follow from the step, which the snapshot has.
std::vector<NamedTensor> AdamW::state() const {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    tensors.push_back({"adamw.mean." + parameters_[i].name, moments_[i].mean});
    tensors.push_back({"adamw.square." + parameters_[i].name, moments_[i].square});
  }
  return tensors;
}

}  // namespace ddp
