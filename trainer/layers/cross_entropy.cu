#include "trainer/layers/cross_entropy.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/cuda/workspace.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// Threads of a long row. Two such blocks fill a multiprocessor: so few rows are worked on at a
/// time that the second-level cache holds them until they are read again.
constexpr unsigned kLongRowThreads = 1024;

/// exp(x) by the card's own power of two: exponential.h, which the CPU shares, has twice as many
/// instructions as this kernel can hide behind its reads.
__device__ float exp_of(float x) {
  constexpr float kLog2E = 1.44269504F;
  return exp2f(x * kLog2E);
}

/// The logits from `first` on. Those behind the vocabulary may be anything, a NaN as well: they are
/// read as minus infinity, whose exponential is 0.
template <int width, class Real>
__device__ Pack<float, width> read_logits(const Real* logits, unsigned first, unsigned vocabulary) {
  const auto pack = load_pack<width>(logits + first);
  Pack<float, width> read;
  for (int k = 0; k < width; ++k) {
    read.of[k] = first + k < vocabulary ? widened(pack.of[k]) : -INFINITY;
  }
  return read;
}

/// One block for each row, of which a thread takes `width` neighbours at a time. The row becomes
/// its own gradient: for the vocabulary of GPT-2 the logits are the largest array of all, so there
/// is no second one. losses (R): of each, to be added up in their order.
template <int width, class Real>
__global__ void __launch_bounds__(kLongRowThreads, 2)
    row_kernel(CrossEntropyOf<Real> pass, double* losses) {
  auto* scratch = shared_memory<float>();
  Real* logits = pass.logits + blockIdx.x * pass.stride;
  // In 32 bits, which a GPU compares in one instruction.
  const auto vocabulary = static_cast<unsigned>(pass.vocabulary);
  const auto stride = static_cast<unsigned>(pass.stride);
  if (pass.targets[blockIdx.x] == kIgnoredTarget) {
    if (threadIdx.x == 0) {
      losses[blockIdx.x] = 0;
    }
    for (unsigned v = threadIdx.x; pass.with_gradient && v < stride; v += blockDim.x) {
      logits[v] = rounded<Real>(0);
    }
    return;
  }
  const auto target = static_cast<unsigned>(pass.targets[blockIdx.x]);
  // Now: after the barriers below another thread may have overwritten it.
  const float target_logit = widened(logits[target]);
  // Largest value and sum in one pass: what was added is scaled whenever a larger one comes.
  float max = target_logit;
  float sum = 0;
  const unsigned first = threadIdx.x * width;
  for (unsigned v = first; v < vocabulary; v += blockDim.x * width) {
    const auto read = read_logits<width>(logits, v, vocabulary);
    float largest = max;
    for (int k = 0; k < width; ++k) {
      largest = read.of[k] > largest ? read.of[k] : largest;
    }
    if (largest > max) {
      sum *= exp_of(max - largest);
      max = largest;
    }
    for (int k = 0; k < width; ++k) {
      sum += exp_of(read.of[k] - max);
    }
  }
  const float row_max = block_max(max, scratch);
  const float row_sum = block_sum(sum * exp_of(max - row_max), scratch);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = log(static_cast<double>(row_sum)) + static_cast<double>(row_max) -
                         static_cast<double>(target_logit);
  }
  if (pass.with_gradient) {
    const float inverse = 1.0F / row_sum;
    for (unsigned v = first; v < stride; v += blockDim.x * width) {
      const auto read = read_logits<width>(logits, v, vocabulary);
      Pack<Real, width> gradient;
      for (int k = 0; k < width; ++k) {
        const float share = exp_of(read.of[k] - row_max) * inverse;
        gradient.of[k] = rounded<Real>(v + k == target ? share - 1.0F : share);
      }
      store_pack(logits + v, gradient);
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

template <int width, class Real>
void queue_rows(const CrossEntropyOf<Real>& pass, double* losses, int device) {
  const bool is_long = pass.stride >= std::size_t{kLongRowThreads} * width;
  Grid grid{{static_cast<unsigned>(pass.rows), 1, 1}};
  grid.threads.x = is_long ? kLongRowThreads : kThreads;
  grid.shared_bytes = grid.threads.x / kWarpSize * sizeof(float);
  launch(device, grid, row_kernel<width, Real>, pass, losses);
}

}  // namespace

template <class Real>
void cross_entropy(const CrossEntropyOf<Real>& pass, int device) {
  // Each row's by itself, then added up in order: atomic additions would give other bits.
  auto* losses = static_cast<double*>(workspace(device, pass.rows * sizeof(double)));
  in_packs<Real>(pass.stride) ? queue_rows<kPackOf<Real>>(pass, losses, device)
                              : queue_rows<1>(pass, losses, device);
  Grid grid{{1, 1, 1}};
  grid.shared_bytes = kThreads / kWarpSize * sizeof(double);
  launch(device, grid, loss_kernel, losses, pass.rows, pass.loss);
}

template void cross_entropy(const CrossEntropyOf<float>&, int);
template void cross_entropy(const CrossEntropyOf<BFloat16>&, int);

}  // namespace ddp::gpu
