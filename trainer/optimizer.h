// Sgd: stochastic gradient descent with momentum and weight decay, as torch.optim.SGD defines it.
#pragma once

#include <span>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "ddp/snapshot.h"
#include "trainer/linear.h"

namespace ddp {

/// Every rank holds the same velocities, since every rank sees the same mean gradients.
class Sgd {
 public:
  /// Velocities start at 0. `parameters` and `kernels` must outlive it.
  Sgd(std::span<const Parameter> parameters, const LinearKernels& kernels, float rate,
      float momentum, float weight_decay = 0);

  /// Of the steps from now on, for schedules.
  void set_rate(float rate) { rate_ = rate; }

  /// Uses the gradients that DistributedDataParallel::finish() left.
  void step();

  /// The velocities as "momentum.<parameter's name>", for a snapshot. They are always there, so
  /// that a resumed run may choose another momentum.
  [[nodiscard]] std::vector<NamedTensor> state() const;

 private:
  std::span<const Parameter> parameters_;
  const LinearKernels* kernels_;
  float rate_;
  float momentum_;
  float weight_decay_;
  std::vector<Tensor> velocities_;
};

}  // namespace ddp
