#include "trainer/layers/cross_entropy.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/cuda/workspace.h"
#include "trainer/layers/exponential.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// One block for each row, of which a thread takes `width` neighbours at a time. The row becomes
/// its own gradient: for the vocabulary of GPT-2 the logits are the largest array of all, so there
/// is no second one. losses (R): of each, to be added up in their order.
template <int width, class Real>
__global__ void row_kernel(CrossEntropyOf<Real> pass, double* losses) {
  auto* scratch = shared_memory<float>();
  Real* logits = pass.logits + blockIdx.x * pass.stride;
  if (pass.targets[blockIdx.x] == kIgnoredTarget) {
    if (threadIdx.x == 0) {
      losses[blockIdx.x] = 0;
    }
    for (std::size_t v = threadIdx.x; pass.with_gradient && v < pass.stride; v += kThreads) {
      logits[v] = rounded<Real>(0);
    }
    return;
  }
  const auto target = static_cast<std::size_t>(pass.targets[blockIdx.x]);
  // Now: after the barriers below another thread may have overwritten it.
  const float target_logit = widened(logits[target]);
  // Largest value and sum in one pass: what was added is scaled whenever a larger one comes.
  float max = target_logit;
  float sum = 0;
  const std::size_t first = static_cast<std::size_t>(threadIdx.x) * width;
  for (std::size_t v = first; v < pass.vocabulary; v += kThreads * width) {
    const auto pack = load_pack<width>(logits + v);
    for (int k = 0; k < width && v + k < pass.vocabulary; ++k) {
      const float logit = widened(pack.of[k]);
      if (logit > max) {
        sum *= exponential(max - logit);
        max = logit;
      }
      sum += exponential(logit - max);
    }
  }
  const float row_max = block_max(max, scratch);
  const float row_sum = block_sum(sum * exponential(max - row_max), scratch);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = log(static_cast<double>(row_sum)) + static_cast<double>(row_max) -
                         static_cast<double>(target_logit);
  }
  if (pass.with_gradient) {
    const float inverse = 1.0F / row_sum;
    for (std::size_t v = first; v < pass.stride; v += kThreads * width) {
      auto pack = load_pack<width>(logits + v);
      for (int k = 0; k < width; ++k) {
        // What is behind the vocabulary may be anything, a NaN as well.
        const float share =
            v + k < pass.vocabulary ? exponential(widened(pack.of[k]) - row_max) * inverse : 0.0F;
        pack.of[k] = rounded<Real>(v + k == target ? share - 1.0F : share);
      }
      store_pack(logits + v, pack);
    }
  }
}

/// One block: atomic additions would come in another order each time.
__global__ void loss_kernel(const double* losses, std::size_t rows, double* loss) {
  double sum = 0;
  for (std::size_t row = threadIdx.x; row < rows; row += kThreads) {
    sum += losses[row];
  }
  sum = block_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) {
    *loss += sum;
  }
}

}  // namespace

template <class Real>
void cross_entropy(const CrossEntropyOf<Real>& pass, int device) {
  // Each row's by itself, then added up in order: atomic additions would give other bits.
  auto* losses = static_cast<double*>(workspace(device, pass.rows * sizeof(double)));
  Grid grid{{static_cast<unsigned>(pass.rows), 1, 1}};
  grid.shared_bytes = kThreads / kWarpSize * sizeof(double);
  launch(device, grid,
         in_packs<Real>(pass.stride) ? row_kernel<kPackOf<Real>, Real> : row_kernel<1, Real>, pass,
         losses);
  grid.blocks = {1, 1, 1};
  launch(device, grid, loss_kernel, losses, pass.rows, pass.loss);
}

template void cross_entropy(const CrossEntropyOf<float>&, int);
template void cross_entropy(const CrossEntropyOf<BFloat16>&, int);

}  // namespace ddp::gpu
