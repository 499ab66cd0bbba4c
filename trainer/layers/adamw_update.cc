#include "trainer/layers/adamw_update.h"

#include <cmath>

#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/team.h"

namespace ddp::DDP_LEVEL {

namespace {

void update_values(const AdamWUpdate& update, std::size_t first, std::size_t end) {
  // Four arrays that never overlap: said in the loop, since the fields cannot say it.
#pragma omp simd
  for (std::size_t i = first; i < end; ++i) {
    adamw_moments(update, i);
    adamw_value(update, i, std::sqrt(update.square[i]));
  }
}

double squares_of(const float* values, std::size_t count) {
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
  double sum = 0;
  for (const double lane : sums) {
    sum += lane;
  }
  for (; i < count; ++i) {
    const double value = values[i];
    sum += value * value;
  }
  return sum;
}

}  // namespace

void adamw_update(const AdamWUpdate* updates, std::size_t count, int /*device*/) {
  for (const AdamWUpdate* update = updates; update != updates + count; ++update) {
    share_out(update->count, kFloatsWorthSharing,
              [&](std::size_t first, std::size_t end, std::size_t) {
                update_values(*update, first, end);
              });
  }
}

void sums_of_squares(const SquareSum* sums, std::size_t count, int /*device*/) {
  for (const SquareSum* pass = sums; pass != sums + count; ++pass) {
    const Chunks chunks(pass->count, kFloatsWorthSharing);
    double parts[kChunksMost];
    chunks.share_out([&](std::size_t chunk, std::size_t first, std::size_t end) {
      parts[chunk] = squares_of(pass->values + first, end - first);
    });
    *pass->sum = chunks.total(parts);
  }
}

}  // namespace ddp::DDP_LEVEL
