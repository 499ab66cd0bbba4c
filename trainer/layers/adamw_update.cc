#include "trainer/layers/adamw_update.h"

#include <cmath>

#include "trainer/layers/cpu_forms.h"

namespace ddp::DDP_LEVEL {

void adamw_update(const AdamWUpdate& update, int /*device*/) {
  // Four arrays that never overlap: said in the loop, since the fields cannot say it.
#pragma omp simd
  for (std::size_t i = 0; i < update.count; ++i) {
    adamw_moments(update, i);
    adamw_value(update, i, std::sqrt(update.square[i]));
  }
}

void sum_of_squares(const float* values, std::size_t count, double* sum, int /*device*/) {
  // Sixteen lanes on every level: their order of adding is part of the result.
  constexpr std::size_t kSums = 16;
  double sums[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::size_t lane = 0; lane < kSums; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  *sum = 0;
  for (const double lane : sums) {
    *sum += lane;
  }
  for (; i < count; ++i) {
    const double value = values[i];
    *sum += value * value;
  }
}

}  // namespace ddp::DDP_LEVEL
