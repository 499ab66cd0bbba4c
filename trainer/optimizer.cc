#include "trainer/optimizer.h"

namespace ddp {

Sgd::Sgd(std::span<const Parameter> parameters, const LinearKernels& kernels, float rate,
         float momentum, float weight_decay)
    : parameters_(parameters),
      kernels_(&kernels),
      rate_(rate),
      momentum_(momentum),
      weight_decay_(weight_decay) {
  // torch.optim.SGD makes the first gradient its velocity. From 0 the first step is the same, and a
  // snapshot before it has velocities to store as well.
  for (const auto& parameter : parameters_) {
    const auto& value = parameter.value;
    velocities_.push_back(Tensor::zeros(value.shape(), value.dtype(), value.device()));
  }
}

void Sgd::step() {
  // On the device of each parameter: gradients and velocities never leave it.
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, value, gradient] = parameters_[i];
    kernels_->update({value.data<float>(), velocities_[i].data<float>(), gradient.data<float>(),
                      value.size(), rate_, momentum_, weight_decay_},
                     value.device().index);
  }
}

std::vector<NamedTensor> Sgd::state() const {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    tensors.push_back({"momentum." + parameters_[i].name, velocities_[i]});
  }
  return tensors;
}

}  // namespace ddp
