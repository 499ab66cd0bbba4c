#include "trainer/adamw.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddp {

AdamW::AdamW(std::span<const Parameter> parameters, const Layers& layers, AdamWOptions options,
             std::optional<std::vector<std::size_t>> own)
    : parameters_(parameters),
      layers_(&layers),
      options_(options),
      own_(own ? *std::move(own) : every_index(parameters)) {
  for (const std::size_t i : own_) {
    const Tensor& value = parameters_[i].value;
    moments_.push_back({Tensor::zeros(value.shape(), value.dtype(), value.device()),
                        Tensor::zeros(value.shape(), value.dtype(), value.device())});
  }
  if (!parameters_.empty()) {
    squares_ = Tensor::empty({static_cast<std::int64_t>(parameters_.size())}, DType::f64,
                             parameters_[0].value.device());
  }
}

/// Parameter by parameter, in their order, in double: the same bits on every rank, which all have
/// the same gradients. So every rank clips by the same factor without asking the others.
double AdamW::gradient_norm() const {
  if (parameters_.empty()) {
    return 0;
  }
  // All are asked for before the first is looked at: on a GPU the host waits once.
  std::vector<SquareSum> passes;
  for (const auto& [name, value, gradient] : parameters_) {
    passes.push_back(
        {gradient.data<float>(), gradient.size(), squares_.data<double>() + passes.size()});
  }
  layers_->sums_of_squares(passes.data(), passes.size(), squares_.device().index);
  double squares = 0;
  for (const double sum : squares_.to_vector<double>()) {
    squares += sum;
  }
  return std::sqrt(squares);
}

void AdamW::step(std::int64_t step, double rate, double gradient_norm) const {
  // torch's: a hair more than the norm, so that a norm of 0 divides nothing.
  const double factor =
      options_.clip > 0 ? std::min(1.0, options_.clip / (gradient_norm + 1e-6)) : 1.0;
  const auto t = static_cast<double>(step);
  const AdamWUpdate common{
      .gradient_factor = static_cast<float>(factor),
      .beta1_rest = static_cast<float>(1 - options_.beta1),
      .beta2 = static_cast<float>(options_.beta2),
      .beta2_rest = static_cast<float>(1 - options_.beta2),
      .step_size = static_cast<float>(rate / (1 - std::pow(options_.beta1, t))),
      .root_correction = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, t))),
      .epsilon = static_cast<float>(options_.epsilon)};
  std::vector<AdamWUpdate> updates;
  for (std::size_t k = 0; k < own_.size(); ++k) {
    const auto& [name, value, gradient] = parameters_[own_[k]];
    AdamWUpdate& update = updates.emplace_back(common);
    // Decay pulls matrices and embeddings alone; biases and norms keep their scale.
    const double decay = value.shape().size() >= 2 ? options_.weight_decay : 0;
    update.value = value.data<float>();
    update.gradient = gradient.data<float>();
    update.mean = moments_[k].mean.data<float>();
    update.square = moments_[k].square.data<float>();
    update.count = value.size();
    update.keep = static_cast<float>(1 - rate * decay);
  }
  if (!updates.empty()) {
    layers_->adamw_update(updates.data(), updates.size(), parameters_[0].value.device().index);
  }
}

/// The corrections of the bias follow from the step, which the snapshot has.
std::vector<OptimizerState> AdamW::state() const {
  OptimizerState means{"adamw.mean.", {}};
  OptimizerState squares{"adamw.square.", {}};
  for (const auto& [mean, square] : moments_) {
    means.own.push_back(mean);
    squares.own.push_back(square);
  }
  return {means, squares};
}

}  // namespace ddp
