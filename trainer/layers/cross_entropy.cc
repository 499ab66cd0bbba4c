#include "trainer/layers/cross_entropy.h"

#include <cmath>

#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/exponential.h"
#include "trainer/layers/team.h"

namespace ddp::DDP_LEVEL {
namespace {

void clear(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 0;
  }
}

/// loss = log(sum(exp(x - max))) + max - x[target]; gradient = softmax - 1 at the target. Returns
/// the sum of these rows.
double loss_of_rows(const CrossEntropy& pass, std::size_t first, std::size_t end) {
  const std::size_t vocabulary = pass.vocabulary;
  double loss = 0;
  for (std::size_t row = first; row < end; ++row) {
    float* logits = pass.logits + row * pass.stride;
    if (pass.targets[row] == kIgnoredTarget) {
      if (pass.with_gradient) {
        clear(logits, pass.stride);
      }
      continue;
    }
    const auto target = static_cast<std::size_t>(pass.targets[row]);
    float max = logits[0];
#pragma omp simd reduction(max : max)
    for (std::size_t v = 0; v < vocabulary; ++v) {
      max = logits[v] > max ? logits[v] : max;
    }
    const float target_logit = logits[target];
    float sum = 0;
    if (!pass.with_gradient) {
#pragma omp simd reduction(+ : sum)
      for (std::size_t v = 0; v < vocabulary; ++v) {
        sum += exponential(logits[v] - max);
      }
    } else {
#pragma omp simd reduction(+ : sum)
      for (std::size_t v = 0; v < vocabulary; ++v) {
        logits[v] = exponential(logits[v] - max);
        sum += logits[v];
      }
      const float inverse = 1.0F / sum;
      for (std::size_t v = 0; v < vocabulary; ++v) {
        logits[v] *= inverse;
      }
      logits[target] -= 1.0F;
      clear(logits + vocabulary, pass.stride - vocabulary);
    }
    loss += std::log(static_cast<double>(sum)) + static_cast<double>(max) -
            static_cast<double>(target_logit);
  }
  return loss;
}

}  // namespace

void cross_entropy(const CrossEntropy& pass, int /*device*/) {
  const Chunks chunks(pass.rows, rows_worth_sharing(pass.vocabulary));
  double losses[kChunksMost];
  chunks.share_out([&](std::size_t chunk, std::size_t first, std::size_t end) {
    losses[chunk] = loss_of_rows(pass, first, end);
  });
  *pass.loss += chunks.total(losses);
}

}  // namespace ddp::DDP_LEVEL
