#include "trainer/layers/attention.h"

#include <string>

#include "ddp/error.h"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/head.cuh"
#include "trainer/layers/cuda/workspace.h"
#include "trainer/layers/exponential.h"

namespace ddp::gpu {
namespace {

/// A block's shared memory; `size`: the head's, as the kernel is made for it.
template <class Real, int size>
struct ForwardMemory {
  Real queries[kTileReals<size>];
  Real keys[kTileReals<size>];
  Real values[kTileReals<size>];
  Real probabilities[kRows * kRealStride<kRows>];
  alignas(32) float scores[kRows * kFloatStride<kRows>];
  alignas(32) float out[kRows * kFloatStride<size>];
};

/// Largest score so far, and sum of exp(score - largest), of the row that two lanes share.
struct RowSum {
  float max = -1e30F;  // below every score; infinity would make NaN of its difference to itself
  float sum = 0;
};

/// One tile's scores of 16 rows become probabilities that are not yet divided by their sum; what
/// the rows have so far is scaled to the new largest score. Two lanes share a row, and take its
/// columns in turn.
template <class Real, int size>
__device__ void softmax_tile(float factor, std::size_t query, std::size_t first_key,
                             const float* scores, Real* probabilities, float* out, RowSum& row) {
  const unsigned half = lane_index() % 2;
  const auto seen = [&](unsigned column) { return first_key + column <= query; };
  float max = row.max;
  for (unsigned column = half; column < kRows; column += 2) {
    const float score = scores[column] * factor;
    max = seen(column) && score > max ? score : max;
  }
  const float other = __shfl_xor_sync(0xffffffffU, max, 1);
  max = other > max ? other : max;
  float sum = 0;
  for (unsigned column = half; column < kRows; column += 2) {
    const float probability = seen(column) ? exponential(scores[column] * factor - max) : 0.0F;
    probabilities[column] = rounded<Real>(probability);
    sum += probability;
  }
  sum += __shfl_xor_sync(0xffffffffU, sum, 1);
  const float shrink = exponential(row.max - max);
  row.sum = row.sum * shrink + sum;
  row.max = max;
  for (unsigned d = half; d < size; d += 2) {
    out[d] *= shrink;
  }
}

/// A block has 64 queries of one head, and goes over the keys once (Dao et al. 2022, algorithm 1).
template <class Real, int size>
__global__ void __launch_bounds__(kHeadThreads)
    forward_kernel(AttentionForwardOf<Real> pass, float factor) {
  auto& memory = *shared_memory<ForwardMemory<Real, size>>();
  const Head head(pass.shape);
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * kRows;
  const std::size_t stride = 3 * head.channels;
  load_tile<size>(head, pass.qkv + head.place_in_qkv(0), stride, first, memory.queries);
  // What follows is of this warp's 16 rows.
  const unsigned row = warp_index() * kTile;
  const unsigned own = row + lane_index() / 2;
  float* scores = memory.scores + row * kFloatStride<kRows>;
  float* out = memory.out + row * kFloatStride<size>;
  Real* probabilities = memory.probabilities + row * kRealStride<kRows>;
  for (unsigned i = lane_index(); i < kTile * kFloatStride<size>; i += kWarpSize) {
    out[i] = 0;
  }
  // Of the row that this lane shares with its neighbour.
  RowSum sum;
  // Later tiles hold only keys that come after all of the block's queries.
  for (std::size_t key = 0; key <= first; key += kRows) {
    __syncthreads();  // all have done with the last tile
    load_tile<size>(head, pass.qkv + head.place_in_qkv(1), stride, key, memory.keys);
    load_tile<size>(head, pass.qkv + head.place_in_qkv(2), stride, key, memory.values);
    __syncthreads();
    WarpTile<Real> tile;
    for (unsigned n = 0; n < kRows; n += kTile) {
      tile.clear();
      tile.template add_transposed<size>(memory.queries + row * kRealStride<size>,
                                         kRealStride<size>, memory.keys + n * kRealStride<size>,
                                         kRealStride<size>);
      tile.store(scores + n, kFloatStride<kRows>);
    }
    __syncwarp();
    softmax_tile<Real, size>(factor, first + own, key, memory.scores + own * kFloatStride<kRows>,
                             memory.probabilities + own * kRealStride<kRows>,
                             memory.out + own * kFloatStride<size>, sum);
    __syncwarp();
    for (unsigned n = 0; n < size; n += kTile) {
      tile.load(out + n, kFloatStride<size>);
      tile.template add<kRows>(probabilities, kRealStride<kRows>, memory.values + n,
                               kRealStride<size>);
      tile.store(out + n, kFloatStride<size>);
    }
    __syncwarp();
  }
  // Each row's sum is with its own two lanes: through memory to those that write the row.
  if (lane_index() % 2 == 0) {
    scores[lane_index() / 2] = 1.0F / sum.sum;
    if (first + own < head.time) {
      pass.log_sum[head.place_of_rows() + first + own] = sum.max + logf(sum.sum);
    }
  }
  __syncwarp();
  store_rows<size>(
      head, out, [&](unsigned r) { return scores[r]; }, pass.out + head.place_in_out(),
      head.channels, first + row);
}

/// delta (B, H, T): sum of out d_out over the head's channels. One warp for each row (b, t, h).
template <class Real>
__global__ void delta_kernel(AttentionBackwardOf<Real> pass, float* delta) {
  const AttentionShape& shape = pass.shape;
  const std::size_t row = warp_row();
  if (row >= shape.batch * shape.time * shape.heads) {
    return;
  }
  float sum = 0;
  for (std::size_t d = lane_index(); d < shape.head_size; d += kWarpSize) {
    const std::size_t at = row * shape.head_size + d;
    sum += widened(pass.out[at]) * widened(pass.d_out[at]);
  }
  sum = warp_sum(sum);
  if (lane_index() == 0) {
    const std::size_t head = row % shape.heads;
    const std::size_t position = row / shape.heads;
    delta[(position / shape.time * shape.heads + head) * shape.time + position % shape.time] = sum;
  }
}

template <class Real, int size>
struct BackwardMemory {
  Real own[2][kTileReals<size>];
  Real other[2][kTileReals<size>];
  Real probabilities[kRows * kRealStride<kRows>];
  Real d_scores[kRows * kRealStride<kRows>];
  alignas(32) float products[2][kRows * kFloatStride<kRows>];
  float log_sum[kRows], delta[kRows];  ///< of the tile of queries
};

/// One row of a tile: scores become probabilities p = exp(score - log_sum), and their gradients
/// p (dp - delta), both times the factor that the scores had. `query(c)` and `key(c)` are those of
/// column c, `at(c)` the query's place in its tile. Queries beyond the last are zeros with
/// gradients of zeros, and so add nothing.
template <class Real, int size, class Query, class Key, class At>
__device__ void gradient_row(BackwardMemory<Real, size>& memory, unsigned own, float factor,
                             const Query& query, const Key& key, const At& at) {
  const float* scores = memory.products[0] + own * kFloatStride<kRows>;
  const float* d_probabilities = memory.products[1] + own * kFloatStride<kRows>;
  for (unsigned column = lane_index() % 2; column < kRows; column += 2) {
    const bool seen = key(column) <= query(column);
    const float probability =
        seen ? exponential(scores[column] * factor - memory.log_sum[at(column)]) : 0.0F;
    const float d_score =
        seen ? probability * (d_probabilities[column] - memory.delta[at(column)]) * factor : 0.0F;
    memory.probabilities[own * kRealStride<kRows> + column] = rounded<Real>(probability);
    memory.d_scores[own * kRealStride<kRows> + column] = rounded<Real>(d_score);
  }
}

/// The block copies 64 queries, with the gradients of what they gave and their sums.
template <class Real, int size>
__device__ void load_queries(const AttentionBackwardOf<Real>& pass, const float* delta,
                             const Head& head, std::size_t first, Real (*tiles)[kTileReals<size>],
                             BackwardMemory<Real, size>& memory) {
  load_tile<size>(head, pass.qkv + head.place_in_qkv(0), 3 * head.channels, first, tiles[0]);
  load_tile<size>(head, pass.d_out + head.place_in_out(), head.channels, first, tiles[1]);
  for (unsigned i = threadIdx.x; i < kRows; i += kHeadThreads) {
    const bool there = first + i < head.time;
    memory.log_sum[i] = there ? pass.log_sum[head.place_of_rows() + first + i] : 0.0F;
    memory.delta[i] = there ? delta[head.place_of_rows() + first + i] : 0.0F;
  }
}

/// 64 keys and their values.
template <class Real, int size>
__device__ void load_keys(const AttentionBackwardOf<Real>& pass, const Head& head,
                          std::size_t first, Real (*tiles)[kTileReals<size>]) {
  load_tile<size>(head, pass.qkv + head.place_in_qkv(1), 3 * head.channels, first, tiles[0]);
  load_tile<size>(head, pass.qkv + head.place_in_qkv(2), 3 * head.channels, first, tiles[1]);
}

/// The warp's 16 rows of own times other, transposed, for both pairs.
template <class Real, int size>
__device__ void multiply_pairs(BackwardMemory<Real, size>& memory, unsigned row) {
  for (unsigned n = 0; n < kRows; n += kTile) {
    for (int i = 0; i < 2; ++i) {
      WarpTile<Real> tile;
      tile.clear();
      tile.template add_transposed<size>(memory.own[i] + row * kRealStride<size>, kRealStride<size>,
                                         memory.other[i] + n * kRealStride<size>,
                                         kRealStride<size>);
      tile.store(memory.products[i] + row * kFloatStride<kRows> + n, kFloatStride<kRows>);
    }
  }
}

/// A block makes the gradients of 64 queries, or of 64 keys and values, of one head. Each block
/// adds up its own rows in a fixed order: so scores are made twice, and no atomic addition is
/// needed, which would give other bits in each run.
///
///     of queries: own is Q and dO, other is K and V: S = Q K^T, dP = dO V^T, dQ = dS K
///     of keys: own is K and V, other is Q and dO, and all is transposed:
///     S = K Q^T, dP = V dO^T, dK = dS Q, dV = P dO
template <class Real, int size, bool of_keys>
__global__ void __launch_bounds__(kHeadThreads)
    backward_kernel(AttentionBackwardOf<Real> pass, const float* delta, float factor) {
  auto& memory = *shared_memory<BackwardMemory<Real, size>>();
  const Head head(pass.shape);
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * kRows;
  const unsigned row = warp_index() * kTile;
  const unsigned own = row + lane_index() / 2;
  WarpTile<Real> sums[2][size / kTile];
  for (auto& of_one : sums) {
    for (auto& tile : of_one) {
      tile.clear();
    }
  }
  if constexpr (of_keys) {
    load_keys<Real, size>(pass, head, first, memory.own);
  } else {
    load_queries<Real, size>(pass, delta, head, first, memory.own, memory);
  }
  // A query looks at the keys up to itself.
  const std::size_t end = of_keys ? head.time : first + 1;
  for (std::size_t at = of_keys ? first : 0; at < end; at += kRows) {
    __syncthreads();  // all have done with the last tile
    const auto mine = [&](unsigned) { return first + own; };
    const auto theirs = [&](unsigned column) { return at + column; };
    if constexpr (of_keys) {
      load_queries<Real, size>(pass, delta, head, at, memory.other, memory);
    } else {
      load_keys<Real, size>(pass, head, at, memory.other);
    }
    __syncthreads();
    multiply_pairs<Real, size>(memory, row);
    __syncwarp();  // what tiles store reaches the other lanes
    if constexpr (of_keys) {
      gradient_row(memory, own, factor, theirs, mine, [](unsigned c) { return c; });
    } else {
      gradient_row(memory, own, factor, mine, theirs, [&](unsigned) { return own; });
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < size / kTile; ++n) {
      sums[0][n].template add<kRows>(memory.d_scores + row * kRealStride<kRows>, kRealStride<kRows>,
                                     memory.other[0] + n * kTile, kRealStride<size>);
      if constexpr (of_keys) {
        sums[1][n].template add<kRows>(memory.probabilities + row * kRealStride<kRows>,
                                       kRealStride<kRows>, memory.other[1] + n * kTile,
                                       kRealStride<size>);
      }
    }
  }
  __syncwarp();  // the products' memory is free
  for (int i = 0; i < (of_keys ? 2 : 1); ++i) {
    float* rows = memory.products[i] + row * kFloatStride<kRows>;
    for (int n = 0; n < size / kTile; ++n) {
      sums[i][n].store(rows + n * kTile, kFloatStride<size>);
    }
    __syncwarp();
    store_rows<size>(
        head, rows, [](unsigned) { return 1.0F; },
        pass.d_qkv + head.place_in_qkv(of_keys ? 1 + i : 0), 3 * head.channels, first + row);
  }
}

/// A block for each 64 rows of each head of each sequence.
template <class Memory>
Grid blocks_for(const AttentionShape& shape) {
  return {{blocks_of(shape.time, kRows), static_cast<unsigned>(shape.batch * shape.heads), 1},
          {kHeadThreads, 1, 1},
          sizeof(Memory)};
}

float factor_of(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_size));
}

template <class Real, int size>
void run_forward(const AttentionForwardOf<Real>& pass, int device) {
  launch(device, blocks_for<ForwardMemory<Real, size>>(pass.shape), forward_kernel<Real, size>,
         pass, factor_of(pass.shape));
}

/// delta first, for both kernels; it stays in the workspace until another layer asks for that.
template <class Real, int size>
void run_backward(const AttentionBackwardOf<Real>& pass, int device) {
  const AttentionShape& shape = pass.shape;
  const std::size_t rows = shape.batch * shape.time * shape.heads;
  auto* delta = static_cast<float*>(workspace(device, rows * sizeof(float)));
  launch(device, warp_for_each(rows), delta_kernel<Real>, pass, delta);
  // One after the other on the stream, so both may read delta.
  const Grid grid = blocks_for<BackwardMemory<Real, size>>(shape);
  launch(device, grid, backward_kernel<Real, size, false>, pass, delta, factor_of(shape));
  launch(device, grid, backward_kernel<Real, size, true>, pass, delta, factor_of(shape));
}

void require_head_size(const AttentionShape& shape) {
  if (shape.head_size > kGpuHeadSizeMax) {
    throw InvalidArgument("attention on a GPU takes heads of up to " +
                          std::to_string(kGpuHeadSizeMax) + " channels; these have " +
                          std::to_string(shape.head_size));
  }
}

}  // namespace

template <class Real>
void attention_forward(const AttentionForwardOf<Real>& pass, int device) {
  require_head_size(pass.shape);
  // Two sizes are compiled; smaller heads are filled up with zeros, which change no score.
  pass.shape.head_size <= 32 ? run_forward<Real, 32>(pass, device)
                             : run_forward<Real, 64>(pass, device);
}

template <class Real>
void attention_backward(const AttentionBackwardOf<Real>& pass, int device) {
  require_head_size(pass.shape);
  pass.shape.head_size <= 32 ? run_backward<Real, 32>(pass, device)
                             : run_backward<Real, 64>(pass, device);
}

template void attention_forward(const AttentionForwardOf<float>&, int);
template void attention_forward(const AttentionForwardOf<BFloat16>&, int);
template void attention_backward(const AttentionBackwardOf<float>&, int);
template void attention_backward(const AttentionBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
