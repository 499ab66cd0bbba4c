// AdamW (Loshchilov, Hutter 2019), as torch.optim.AdamW defines it, with the gradients clipped by
// their global norm as torch.nn.utils.clip_grad_norm_ does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "trainer/layers/layers.h"
#include "trainer/optimizer_part.h"

namespace ddp {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;  ///< GPT-3's (Brown et al. 2020, appendix B)
  double epsilon = 1e-8;
  /// Of parameters with two dimensions: biases and layer norms are left as they are.
  double weight_decay = 0.1;
  /// The norm of all gradients together is at most this; 0: not clipped.
  double clip = 1.0;
};

/// Every rank holds the same moments, since every rank sees the same mean gradients; or those of
/// its part.
class AdamW {
 public:
  /// Moments start at 0. `parameters` and `layers` must outlive it. `own`: indices of those that it
  /// updates, and has moments for (OptimizerPart); not given: all.
  AdamW(std::span<const Parameter> parameters, const Layers& layers, AdamWOptions options,
        std::optional<std::vector<std::size_t>> own = std::nullopt);

  /// Norm of all gradients that DistributedDataParallel::finish() left, whoever updates what: the
  /// same bits on every rank.
  [[nodiscard]] double gradient_norm() const;
  /// Step number `step`, from 1, with gradients of that norm. f32 parameters only.
  void step(std::int64_t step, double rate, double gradient_norm) const;

  /// The moments as "adamw.mean." and "adamw.square.", for a snapshot.
  [[nodiscard]] std::vector<OptimizerState> state() const;

 private:
  struct Moments {
    Tensor mean, square;
  };
  std::span<const Parameter> parameters_;
  const Layers* layers_;
  AdamWOptions options_;
  std::vector<std::size_t> own_;
  std::vector<Moments> moments_;  // of each of own_
  Tensor squares_;                // (parameters), f64: sums that gradient_norm() leaves here; kept,
                                  // since to free memory of a GPU waits for it
};

}  // namespace ddp
