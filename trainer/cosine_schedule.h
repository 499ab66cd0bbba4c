// The learning rate of each step: a linear rise, then half a cosine down to a tenth (Loshchilov,
// Hutter 2017; Radford et al. 2018). Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace ddp {

struct CosineSchedule {
  double peak = 0;  ///< reached after the rise
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;  ///< the rate stays at peak / 10 after them

  /// Of step `step`, from 0.
  [[nodiscard]] double rate(std::int64_t step) const {
    if (step < warmup_steps) {
      return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
    }
    const auto span = static_cast<double>(std::max<std::int64_t>(total_steps - warmup_steps, 1));
    const double part = std::min(static_cast<double>(step - warmup_steps) / span, 1.0);
    const double low = peak / 10;
    return low + (peak - low) * 0.5 * (1 + std::cos(std::numbers::pi * part));
  }
};

}  // namespace ddp
