#include "trainer/layers/cross_entropy.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/cuda/tensor_cores.cuh"
#include "trainer/layers/cuda/workspace.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// Threads of a long row. Two such blocks fill a multiprocessor: one reads its row while the other
/// writes, and where two rows do not fit into its shared memory, the second-level cache holds those
/// that are worked on until they are read again.
constexpr unsigned kLongRowThreads = 1024;
/// In front of a row in shared memory: what block_sum() needs.
constexpr std::size_t kScratchBytes = kLongRowThreads / kWarpSize * sizeof(float);

/// exp(x) is 2^(x log2(e)), the card's own power of two: exponential.h, which the CPU shares, has
/// twice as many instructions as this kernel can hide behind its reads.
constexpr float kLog2E = 1.44269504F;

/// The logits from `first` on. Those behind the vocabulary may be anything, a NaN as well: they are
/// read as minus infinity, whose exponential is 0.
template <int width, class Real>
__device__ Pack<float, width> read_logits(const Real* logits, unsigned first, unsigned vocabulary) {
  const auto pack = load_pack<width>(logits + first);
  Pack<float, width> read;
  const bool whole = first + width <= vocabulary;
  for (int k = 0; k < width; ++k) {
    read.of[k] = widened(pack.of[k]);
  }
  if (!whole) {
    for (int k = 0; k < width; ++k) {
      read.of[k] = first + k < vocabulary ? read.of[k] : -INFINITY;
    }
  }
  return read;
}

/// What a row's probabilities are made of.
struct RowShare {
  float max, inverse_sum;
  float target_logit;

  __device__ float operator()(float logit) const {
    return power_of_two((logit - max) * kLog2E) * inverse_sum;
  }
};

/// A thread's part of the gradient at `logits`, of the row that it reads at `row`: the same place,
/// or a copy of its part.
template <int width, class Real>
__device__ void write_gradient(const Real* row, Real* logits, unsigned vocabulary, unsigned stride,
                               unsigned target, const RowShare& share) {
  for (unsigned v = threadIdx.x * width; v < stride; v += blockDim.x * width) {
    const auto read = read_logits<width>(row, v, vocabulary);
    Pack<Real, width> gradient;
    for (int k = 0; k < width; ++k) {
      gradient.of[k] = rounded<Real>(share(read.of[k]));
    }
    store_pack(logits + v, gradient);
  }
  // By the thread that has just written the target's share.
  if (target / width % blockDim.x == threadIdx.x) {
    logits[target] = rounded<Real>(share(share.target_logit) - 1.0F);
  }
}

/// One block for each row, of which a thread takes `width` neighbours at a time. The row becomes
/// its own gradient: for the vocabulary of GPT-2 the logits are the largest array of all, so there
/// is no second one. losses (R): of each, to be added up in their order. `shared`: the row stays in
/// shared memory between its two readings.
template <int width, bool shared, class Real>
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
  const unsigned first = threadIdx.x * width;
  const Real* row = logits;
  if constexpr (shared) {
    // A thread reads what it has copied itself, and needs no barrier.
    auto* copy = reinterpret_cast<Real*>(shared_memory<unsigned char>() + kScratchBytes);
    for (unsigned v = first; v < stride; v += blockDim.x * width) {
      begin_copy<width * sizeof(Real)>(copy + v, logits + v, true);
    }
    row = copy;
  }
  // Now: after the barriers below another thread may have overwritten it.
  const float target_logit = widened(logits[target]);
  if constexpr (shared) {
    wait_for_copies();
  }
  // Largest value and sum in one pass: what was added is scaled whenever a larger one comes.
  float max = target_logit;
  float sum = 0;
  for (unsigned v = first; v < vocabulary; v += blockDim.x * width) {
    const auto read = read_logits<width>(row, v, vocabulary);
    float largest = max;
    for (int k = 0; k < width; ++k) {
      largest = read.of[k] > largest ? read.of[k] : largest;
    }
    if (largest > max) {
      sum *= power_of_two((max - largest) * kLog2E);
      max = largest;
    }
    for (int k = 0; k < width; ++k) {
      sum += power_of_two((read.of[k] - max) * kLog2E);
    }
  }
  const float row_max = block_max(max, scratch);
  const float row_sum = block_sum(sum * power_of_two((max - row_max) * kLog2E), scratch);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = log(static_cast<double>(row_sum)) + static_cast<double>(row_max) -
                         static_cast<double>(target_logit);
  }
  if (pass.with_gradient) {
    write_gradient<width>(row, logits, vocabulary, stride, target,
                          {row_max, 1.0F / row_sum, target_logit});
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

/// Whether two blocks with so much shared memory run on a multiprocessor at a time.
bool two_fit(std::size_t bytes, int device) {
  constexpr std::size_t kReserved = 1024;  // by the driver, of each block
  int all = 0;
  check_cuda(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  return 2 * (bytes + kReserved) <= static_cast<std::size_t>(all);
}

template <int width, class Real>
void queue_rows(const CrossEntropyOf<Real>& pass, double* losses, int device) {
  const bool is_long = pass.stride >= std::size_t{kLongRowThreads} * width;
  Grid grid{{static_cast<unsigned>(pass.rows), 1, 1}};
  grid.threads.x = is_long ? kLongRowThreads : kThreads;
  grid.shared_bytes = grid.threads.x / kWarpSize * sizeof(float);
  if constexpr (width == kPackOf<Real>) {
    const std::size_t with_row = kScratchBytes + pass.stride * sizeof(Real);
    if (is_long && two_fit(with_row, device)) {
      grid.shared_bytes = with_row;
      return launch(device, grid, row_kernel<width, true, Real>, pass, losses);
    }
  }
  launch(device, grid, row_kernel<width, false, Real>, pass, losses);
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
