#include "trainer/layers/embedding.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// Row r is position r mod T of its sequence. A thread has `width` neighbouring channels.
template <int width, class Real>
__global__ void forward_kernel(EmbeddingForwardOf<Real> pass) {
  const std::size_t i = global_thread() * width;
  const std::size_t row = i / pass.channels;
  if (row >= pass.batch * pass.time) {
    return;
  }
  const std::size_t c = i % pass.channels;
  const auto token = static_cast<std::size_t>(pass.tokens[row]);
  auto out = load_pack<width>(pass.token_weight + token * pass.channels + c);
  const auto position =
      load_pack<width>(pass.position_weight + row % pass.time * pass.channels + c);
  for (int k = 0; k < width; ++k) {
    out.of[k] = rounded<Real>(widened(out.of[k]) + widened(position.of[k]));
  }
  store_pack(pass.out + i, out);
}

template <int width, class Real>
void queue_forward(const EmbeddingForwardOf<Real>& pass, int device) {
  launch(device, thread_for_each(pass.batch * pass.time * pass.channels / width),
         forward_kernel<width, Real>, pass);
}

/// Blocks that fill an H100, eight for each multiprocessor.
constexpr unsigned kTokenBlocks = 8 * 132;
constexpr unsigned kWarps = kThreads / kWarpSize;
/// Neighbours that a thread looks at in one round: a round costs three barriers.
constexpr unsigned kLooks = 8;
constexpr unsigned kRoundRows = kThreads * kLooks;

/// Adds channel c of these rows to their tokens, in their order.
template <class Real>
__device__ void add_rows(const EmbeddingBackwardOf<Real>& pass, std::size_t c, const unsigned* rows,
                         unsigned count) {
  // Several are read at a time: a token that comes often would wait for memory once for each row.
  constexpr unsigned kAtOnce = 8;
  for (unsigned first = 0; first < count; first += kAtOnce) {
    float values[kAtOnce];
    std::size_t places[kAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const std::size_t row = rows[first + k < count ? first + k : first];
      values[k] = widened(pass.d_out[row * pass.channels + c]);
      places[k] = static_cast<std::size_t>(pass.tokens[row]) * pass.channels + c;
    }
#pragma unroll
    for (unsigned k = 0; k < kAtOnce; ++k) {
      if (first + k < count) {
        pass.d_token_weight[places[k]] += values[k];
      }
    }
  }
}

/// The sum of what the lanes before this one have.
__device__ unsigned lanes_before(unsigned mine) {
  unsigned sum = mine;
  for (unsigned step = 1; step < kWarpSize; step *= 2) {
    const unsigned lane = lane_index();
    const unsigned other = __shfl_sync(0xffffffffU, sum, lane < step ? lane : lane - step);
    sum += lane < step ? 0 : other;
  }
  return sum - mine;
}

/// Block (x, y) has the tokens that are x modulo gridDim.x, so that those which come often are
/// spread, and of them channel slice y, a thread for each channel. It looks for its rows in the
/// batch: so each sum is made by one thread in the order of the rows, and equal inputs give equal
/// bits. Atomic additions would give other bits in each run.
template <class Real>
__global__ void token_kernel(EmbeddingBackwardOf<Real> pass) {
  auto* found = shared_memory<unsigned>();  // (kRoundRows): rows of this block, ascending
  unsigned* counts = found + kRoundRows;    // (kWarps): how many each warp has found
  const std::size_t rows = pass.batch * pass.time;
  const std::size_t c = static_cast<std::size_t>(blockIdx.y) * kThreads + threadIdx.x;
  for (std::size_t first = 0; first < rows; first += kRoundRows) {
    const std::size_t row = first + std::size_t{threadIdx.x} * kLooks;
    unsigned mine = 0;  // a bit for each of the thread's rows
#pragma unroll
    for (unsigned k = 0; k < kLooks; ++k) {
      const bool is_mine =
          row + k < rows && static_cast<unsigned>(pass.tokens[row + k]) % gridDim.x == blockIdx.x;
      mine |= is_mine ? 1U << k : 0U;
    }
    // This barrier also keeps what the last round has found until all have read it.
    if (__syncthreads_or(mine != 0 ? 1 : 0) == 0) {
      continue;
    }
    const auto of_thread = static_cast<unsigned>(__popc(mine));
    unsigned before = lanes_before(of_thread);
    if (lane_index() == kWarpSize - 1) {
      counts[warp_index()] = before + of_thread;
    }
    __syncthreads();
    unsigned count = 0;
    for (unsigned warp = 0; warp < kWarps; ++warp) {
      before += warp < warp_index() ? counts[warp] : 0;
      count += counts[warp];
    }
#pragma unroll
    for (unsigned k = 0; k < kLooks; ++k) {
      if ((mine >> k & 1U) != 0) {
        found[before++] = static_cast<unsigned>(row) + k;
      }
    }
    __syncthreads();
    if (c < pass.channels) {
      add_rows(pass, c, found, count);
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
  in_packs<Real>(pass.channels) ? queue_forward<kPackOf<Real>>(pass, device)
                                : queue_forward<1>(pass, device);
}

template <class Real>
void embedding_backward(const EmbeddingBackwardOf<Real>& pass, int device) {
  // The fewer blocks, the fewer read the tokens, which the second-level cache holds.
  const unsigned slices = blocks_of(pass.channels, kThreads);
  const std::size_t blocks = std::max(1U, kTokenBlocks / slices);
  Grid grid{{static_cast<unsigned>(std::min(pass.vocabulary, blocks)), slices, 1}};
  grid.shared_bytes = (kRoundRows + kWarps) * sizeof(unsigned);
  launch(device, grid, token_kernel<Real>, pass);
  launch(device, thread_for_each(pass.time * pass.channels), position_kernel<Real>, pass);
}

template void embedding_forward(const EmbeddingForwardOf<float>&, int);
template void embedding_forward(const EmbeddingForwardOf<BFloat16>&, int);
template void embedding_backward(const EmbeddingBackwardOf<float>&, int);
template void embedding_backward(const EmbeddingBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
