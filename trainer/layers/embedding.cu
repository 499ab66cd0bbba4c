#include "trainer/layers/embedding.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// Row r is position r mod T of its sequence.
template <class Real>
__global__ void forward_kernel(EmbeddingForwardOf<Real> pass) {
  const std::size_t i = global_thread();
  const std::size_t row = i / pass.channels;
  if (row >= pass.batch * pass.time) {
    return;
  }
  const std::size_t c = i % pass.channels;
  const auto token = static_cast<std::size_t>(pass.tokens[row]);
  pass.out[i] = rounded<Real>(widened(pass.token_weight[token * pass.channels + c]) +
                              widened(pass.position_weight[row % pass.time * pass.channels + c]));
}

/// One block for each token of the vocabulary, which looks for its rows in the batch: so each sum
/// is made by one thread in the order of the rows, and equal inputs give equal bits. Atomic
/// additions would give other bits in each run.
template <class Real>
__global__ void token_kernel(EmbeddingBackwardOf<Real> pass) {
  auto* is_mine = shared_memory<int>();
  const std::size_t rows = pass.batch * pass.time;
  float* d_token = pass.d_token_weight + blockIdx.x * pass.channels;
  for (std::size_t first = 0; first < rows; first += kThreads) {
    const std::size_t row = first + threadIdx.x;
    const bool mine = row < rows && static_cast<unsigned>(pass.tokens[row]) == blockIdx.x;
    // This barrier also keeps the marks of the last round until all have read them.
    if (__syncthreads_or(mine ? 1 : 0) == 0) {
      continue;
    }
    is_mine[threadIdx.x] = mine ? 1 : 0;
    __syncthreads();
    for (std::size_t i = 0; i < kThreads; ++i) {
      if (is_mine[i] != 0) {
        const Real* d_out = pass.d_out + (first + i) * pass.channels;
        for (std::size_t c = threadIdx.x; c < pass.channels; c += kThreads) {
          d_token[c] += widened(d_out[c]);
        }
      }
    }
  }
}

/// A thread for each element: it adds up the sequences of the batch, in their order.
template <class Real>
__global__ void position_kernel(EmbeddingBackwardOf<Real> pass) {
  const std::size_t i = global_thread();
  const std::size_t size = pass.time * pass.channels;
  if (i >= size) {
    return;
  }
  float sum = pass.d_position_weight[i];
  for (std::size_t b = 0; b < pass.batch; ++b) {
    sum += widened(pass.d_out[b * size + i]);
  }
  pass.d_position_weight[i] = sum;
}

}  // namespace

template <class Real>
void embedding_forward(const EmbeddingForwardOf<Real>& pass, int device) {
  launch(device, thread_for_each(pass.batch * pass.time * pass.channels), forward_kernel<Real>,
         pass);
}

template <class Real>
void embedding_backward(const EmbeddingBackwardOf<Real>& pass, int device) {
  // Most blocks find nothing: they read the tokens, which the second-level cache holds.
  Grid grid{{static_cast<unsigned>(pass.vocabulary), 1, 1}};
  grid.shared_bytes = kThreads * sizeof(int);
  launch(device, grid, token_kernel<Real>, pass);
  launch(device, thread_for_each(pass.time * pass.channels), position_kernel<Real>, pass);
}

template void embedding_forward(const EmbeddingForwardOf<float>&, int);
template void embedding_forward(const EmbeddingForwardOf<BFloat16>&, int);
template void embedding_backward(const EmbeddingBackwardOf<float>&, int);
template void embedding_backward(const EmbeddingBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
