// Sgd: stochastic gradient descent with momentum and weight decay, as torch.optim.SGD defines it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "trainer/linear.h"
#include "trainer/optimizer_part.h"

namespace ddp {

/// Every rank holds the same velocities, since every rank sees the same mean gradients; or those of
/// its part.
class Sgd {
 public:
  /// Velocities start at 0. `parameters` and `kernels` must outlive it. `own`: indices of those
  /// that it updates, and has velocities for (OptimizerPart); not given: all.
  Sgd(std::span<const Parameter> parameters, const LinearKernels& kernels, float rate,
      float momentum, float weight_decay = 0,
      std::optional<std::vector<std::size_t>> own = std::nullopt);

  /// Of the steps from now on, for schedules.
  void set_rate(float rate) { rate_ = rate; }

  /// Uses the gradients that DistributedDataParallel::finish() left.
  void step();

  /// The velocities as "momentum.", for a snapshot. They are always there, so that a resumed run
  /// may choose another momentum.
  [[nodiscard]] std::vector<OptimizerState> state() const;

 private:
  std::span<const Parameter> parameters_;
  const LinearKernels* kernels_;
  float rate_;
  float momentum_;
  float weight_decay_;
  std::vector<std::size_t> own_;
  std::vector<Tensor> velocities_;  // of each of own_
};

}  // namespace ddp
