// AdamW's arithmetic (Loshchilov, Hutter 2019), as torch.optim.AdamW does it, and the norm of a
// gradient. Both are the same to the last bit on every x86-64 level, since every rank updates its
// own copy of the parameters: sums run in lanes of a fixed number, and nothing is contracted to
// fused operations (CMakeLists.txt).
#pragma once

#include <cstddef>

#include "trainer/host_device.h"

namespace ddp {

/// One tensor's step. In this order, one value at a time:
///   g = gradient_factor gradient; value = (1 - rate decay) value
///   mean = mean + (1 - beta1) (g - mean); square = beta2 square + (1 - beta2) g g
///   value = value - step_size mean / (sqrt(square) / root_correction + epsilon)
/// with step_size = rate / (1 - beta1^t) and root_correction = sqrt(1 - beta2^t).
struct AdamWUpdate {
  float* value = nullptr;           ///< (count)
  const float* gradient = nullptr;  ///< (count)
  float* mean = nullptr;            ///< (count), of the gradients: torch's exp_avg
  float* square = nullptr;          ///< (count), mean of their squares: torch's exp_avg_sq
  std::size_t count = 0;
  float gradient_factor = 1;
  float keep = 1;  ///< 1 - rate decay
  float beta1_rest = 0;
  float beta2 = 0;
  float beta2_rest = 0;
  float step_size = 0;
  float root_correction = 1;
  float epsilon = 0;
};

/// What one tensor adds to the square of a norm.
struct SquareSum {
  const float* values = nullptr;  ///< (count)
  std::size_t count = 0;
  double* sum = nullptr;  ///< (1), overwritten: the sum of the squares, in doubles
};

DDP_ARITHMETIC void adamw_moments(const AdamWUpdate& update, std::size_t i) {
  const float g = update.gradient_factor * update.gradient[i];
  update.mean[i] = update.mean[i] + update.beta1_rest * (g - update.mean[i]);
  update.square[i] = update.beta2 * update.square[i] + update.beta2_rest * g * g;
}

/// `root` is sqrt of the new square: GPU and CPU call that function by other names.
DDP_ARITHMETIC void adamw_value(const AdamWUpdate& update, std::size_t i, float root) {
  update.value[i] =
      update.keep * update.value[i] -
      update.step_size * (update.mean[i] / (root / update.root_correction + update.epsilon));
}

}  // namespace ddp
