#include "trainer/optimizer.h"

#include <utility>

namespace ddp {

Sgd::Sgd(std::span<const Parameter> parameters, const LinearKernels& kernels, float rate,
         float momentum, float weight_decay, std::optional<std::vector<std::size_t>> own)
    : parameters_(parameters),
      kernels_(&kernels),
      rate_(rate),
      momentum_(momentum),
      weight_decay_(weight_decay),
      own_(own ? *std::move(own) : every_index(parameters)) {
  // torch.optim.SGD makes the first gradient its velocity. From 0 the first step is the same, and a
  // snapshot before it has velocities to store as well.
  for (const std::size_t i : own_) {
    const auto& value = parameters_[i].value;
    velocities_.push_back(Tensor::zeros(value.shape(), value.dtype(), value.device()));
  }
}

void Sgd::step() {
  // On the device of the parameters: gradients and velocities never leave it.
  std::vector<SgdUpdate> updates;
  for (std::size_t k = 0; k < own_.size(); ++k) {
    const auto& [name, value, gradient] = parameters_[own_[k]];
    updates.push_back({value.data<float>(), velocities_[k].data<float>(), gradient.data<float>(),
                       value.size(), rate_, momentum_, weight_decay_});
  }
  if (!updates.empty()) {
    kernels_->update(updates.data(), updates.size(), parameters_[0].value.device().index);
  }
}

std::vector<OptimizerState> Sgd::state() const {
  return {{"momentum.", velocities_}};
}

}  // namespace ddp
