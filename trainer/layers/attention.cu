#include "trainer/layers/attention.h"

#include <cmath>
#include <string>

#include "ddp/error.h"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/head.cuh"
#include "trainer/layers/cuda/workspace.h"

// Flash attention (Dao 2023, FlashAttention-2) by warps that hold 16 rows each: what a warp sums up
// stays in its registers, and the rows that it goes over come through shared memory, the next tile
// while it works on this one. Exponentials are powers of two.
namespace ddp::gpu {
namespace {

constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;

/// Each with 16 queries of its own.
constexpr unsigned kForwardWarps = 8;
/// Each with 16 queries, or 16 keys: fewer, since they hold more.
constexpr unsigned kBackwardWarps = 4;
constexpr unsigned kForwardRows = kForwardWarps * kTile;
constexpr unsigned kBackwardRows = kBackwardWarps * kTile;
/// A tile of the backward pass is gone over in halves, so that its products fit into registers.
constexpr unsigned kHalf = kTileRows / 2;

float factor_of(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_size));
}

/// Two tiles that are used together, twice: one pair is copied while the other is in use.
template <class Real, int size>
struct TilePairs {
  Real of[2][2][kTileReals<size>];
};

/// Largest score so far, as the power of two's exponent, and this lane's share of the sum of
/// 2^(score - largest), of rows g and g + 8.
struct RowSums {
  float max[2] = {-1e30F, -1e30F};  // infinity would make NaN of its difference to itself
  float sum[2] = {0, 0};
};

/// One tile's scores become probabilities that are not yet divided by their sum; what the rows have
/// so far is scaled to the new largest score. `seen`: of row g's query, how many of the tile's keys
/// come first or are its own.
template <int size>
__device__ void softmax_tile(float factor, std::ptrdiff_t seen,
                             Sums (&scores)[kTileRows / kColumns], Sums (&out)[size / kColumns],
                             RowSums& rows) {
  if (seen < static_cast<std::ptrdiff_t>(kTileRows)) {
#pragma unroll
    for (unsigned n = 0; n < kTileRows / kColumns; ++n) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        const auto key = static_cast<std::ptrdiff_t>(n * kColumns + fragment_column() + i % 2);
        if (key >= seen + (i < 2 ? 0 : 8)) {
          scores[n].of[i] = -1e30F;
        }
      }
    }
  }
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    float max = -1e30F;
#pragma unroll
    for (unsigned n = 0; n < kTileRows / kColumns; ++n) {
      max = fmaxf(max, fmaxf(scores[n].of[2 * half], scores[n].of[2 * half + 1]));
    }
    max = fmaxf(rows.max[half], row_max(max) * factor);
    const float shrink = power_of_two(rows.max[half] - max);
    float sum = 0;
#pragma unroll
    for (unsigned n = 0; n < kTileRows / kColumns; ++n) {
#pragma unroll
      for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n].of[i] = power_of_two(fmaf(scores[n].of[i], factor, -max));
        sum += scores[n].of[i];
      }
    }
    rows.sum[half] = rows.sum[half] * shrink + sum;
    rows.max[half] = max;
#pragma unroll
    for (unsigned n = 0; n < size / kColumns; ++n) {
      out[n].of[2 * half] *= shrink;
      out[n].of[2 * half + 1] *= shrink;
    }
  }
}

/// A block has 128 queries of one head, and goes over their keys once.
template <class Real, int size>
__global__ void __launch_bounds__(kForwardWarps* kWarpSize, 2)
    forward_kernel(AttentionForwardOf<Real> pass, float factor) {
  auto& tiles = *shared_memory<TilePairs<Real, size>>();
  const Head head(pass.shape);
  // The last queries first: they look at the most keys.
  const std::size_t block_first =
      static_cast<std::size_t>(gridDim.x - 1 - blockIdx.x) * kForwardRows;
  const std::size_t first = block_first + warp_index() * kTile;
  const std::size_t stride = 3 * head.channels;
  const std::size_t end = head.end_of(block_first, kForwardRows);
  const auto begin_keys = [&](std::size_t key, unsigned pair) {
    begin_tile<size>(head, pass.qkv + head.place_in_qkv(1), stride, key, tiles.of[pair][0]);
    begin_tile<size>(head, pass.qkv + head.place_in_qkv(2), stride, key, tiles.of[pair][1]);
  };
  begin_keys(0, 0);
  Left<Real> queries[size / kTile];
  load_rows<size>(head, pass.qkv + head.place_in_qkv(0), stride, first, queries);
  Sums out[size / kColumns] = {};
  RowSums rows;
  unsigned pair = 0;
  for (std::size_t key = 0; key < end; key += kTileRows, pair ^= 1U) {
    wait_for_copies();
    __syncthreads();  // this pair is there, and all have done with the other
    if (key + kTileRows < end) {
      begin_keys(key + kTileRows, pair ^ 1U);
    }
    if (first >= head.time || key >= first + kTile) {
      continue;  // no query, or only keys that come after this warp's queries
    }
    Sums scores[kTileRows / kColumns] = {};
    add_transposed<size, kTileRows>(queries, tiles.of[pair][0], scores);
    const auto seen = static_cast<std::ptrdiff_t>(first + fragment_row() + 1 - key);
    softmax_tile<size>(factor * kLog2E, seen, scores, out, rows);
    Left<Real> probabilities[kTileRows / kTile];
    as_left<kTileRows>(scores, probabilities);
    add_product<kTileRows, size>(probabilities, tiles.of[pair][1], out);
  }
  float inverse[2];
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const float sum = row_sum(rows.sum[half]);
    inverse[half] = 1.0F / sum;
    const std::size_t row = first + fragment_row() + half * 8;
    if (lane_index() % 4 == 0 && row < head.time) {
      pass.log_sum[head.place_of_rows() + row] = rows.max[half] * kLn2 + logf(sum);
    }
  }
  store_rows<size>(head, out, inverse, pass.out + head.place_in_out(), head.channels, first);
}

/// Scores (16, kHalf) become probabilities p = 2^(score factor - log_sum), and d_scores p (dp -
/// delta), which want the factor still. `log_sum(n, i)` and `delta(n, i)` are those of the query of
/// sum i of product n; `seen(n, i)`: whether that query looks at that key.
template <class LogSum, class Delta, class Seen>
__device__ void gradients(float factor, const LogSum& log_sum, const Delta& delta, const Seen& seen,
                          Sums (&scores)[kHalf / kColumns], Sums (&d_scores)[kHalf / kColumns]) {
#pragma unroll
  for (unsigned n = 0; n < kHalf / kColumns; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const float power =
          power_of_two(fmaf(scores[n].of[i], factor * kLog2E, -log_sum(n, i) * kLog2E));
      const float probability = seen(n, i) ? power : 0.0F;
      scores[n].of[i] = probability;
      d_scores[n].of[i] = probability * (d_scores[n].of[i] - delta(n, i));
    }
  }
}

/// A block makes the gradients of 64 queries: S = Q K^T, dP = dO V^T, dQ = dS K. And delta (B, H,
/// T), the sum of out d_out over the head's channels, for the kernel that comes next.
template <class Real, int size>
__global__ void __launch_bounds__(kBackwardWarps* kWarpSize, 3)
    queries_kernel(AttentionBackwardOf<Real> pass, float* delta, float factor) {
  auto& tiles = *shared_memory<TilePairs<Real, size>>();
  const Head head(pass.shape);
  const std::size_t block_first =
      static_cast<std::size_t>(gridDim.x - 1 - blockIdx.x) * kBackwardRows;
  const std::size_t first = block_first + warp_index() * kTile;
  const std::size_t stride = 3 * head.channels;
  const std::size_t end = head.end_of(block_first, kBackwardRows);
  const auto begin_keys = [&](std::size_t key, unsigned pair) {
    begin_tile<size>(head, pass.qkv + head.place_in_qkv(1), stride, key, tiles.of[pair][0]);
    begin_tile<size>(head, pass.qkv + head.place_in_qkv(2), stride, key, tiles.of[pair][1]);
  };
  begin_keys(0, 0);
  Left<Real> queries[size / kTile], d_out[size / kTile];
  load_rows<size>(head, pass.qkv + head.place_in_qkv(0), stride, first, queries);
  load_rows<size>(head, pass.d_out + head.place_in_out(), head.channels, first, d_out);
  float log_sums[2], deltas[2] = {0, 0};
  {
    Left<Real> out[size / kTile];
    load_rows<size>(head, pass.out + head.place_in_out(), head.channels, first, out);
#pragma unroll
    for (unsigned k = 0; k < size / kTile; ++k) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        deltas[i % 2] += low_of(out[k].of[i]) * low_of(d_out[k].of[i]) +
                         high_of(out[k].of[i]) * high_of(d_out[k].of[i]);
      }
    }
  }
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    deltas[half] = row_sum(deltas[half]);
    const std::size_t row = first + fragment_row() + half * 8;
    const bool there = row < head.time;
    log_sums[half] = there ? pass.log_sum[head.place_of_rows() + row] : 0.0F;
    if (there && lane_index() % 4 == 0) {
      delta[head.place_of_rows() + row] = deltas[half];
    }
  }
  Sums d_queries[size / kColumns] = {};
  unsigned pair = 0;
  for (std::size_t key = 0; key < end; key += kTileRows, pair ^= 1U) {
    wait_for_copies();
    __syncthreads();  // as above
    if (key + kTileRows < end) {
      begin_keys(key + kTileRows, pair ^ 1U);
    }
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const std::size_t from = key + half * kHalf;
      if (first >= head.time || from >= first + kTile) {
        continue;
      }
      const Real* keys = tiles.of[pair][0] + half * kHalf * kRowStride<size>;
      const Real* values = tiles.of[pair][1] + half * kHalf * kRowStride<size>;
      Sums scores[kHalf / kColumns] = {}, d_scores[kHalf / kColumns] = {};
      add_transposed<size, kHalf>(queries, keys, scores);
      add_transposed<size, kHalf>(d_out, values, d_scores);
      const std::size_t own = first + fragment_row();
      gradients(
          factor, [&](unsigned, unsigned i) { return log_sums[i / 2]; },
          [&](unsigned, unsigned i) { return deltas[i / 2]; },
          [&](unsigned n, unsigned i) {
            return from + n * kColumns + fragment_column() + i % 2 <= own + i / 2 * 8;
          },
          scores, d_scores);
      Left<Real> d_left[kHalf / kTile];
      as_left<kHalf>(d_scores, d_left);
      add_product<kHalf, size>(d_left, keys, d_queries);
    }
  }
  store_rows<size>(head, d_queries, {factor, factor}, pass.d_qkv + head.place_in_qkv(0), stride,
                   first);
}

/// Beside a pair of tiles, queries and their d_out: what belongs to each query.
template <class Real, int size>
struct QueryTiles {
  TilePairs<Real, size> tiles;
  float log_sum[2][kTileRows], delta[2][kTileRows];
};

/// A block makes the gradients of 64 keys and values: S = K Q^T, dP = V dO^T, dK = dS Q, dV = P dO,
/// all transposed. It makes the scores once more, so that each block adds up its own rows in a
/// fixed order: atomic additions would give other bits in each run.
template <class Real, int size>
__global__ void __launch_bounds__(kBackwardWarps* kWarpSize, 3)
    keys_kernel(AttentionBackwardOf<Real> pass, const float* delta, float factor) {
  auto& memory = *shared_memory<QueryTiles<Real, size>>();
  const Head head(pass.shape);
  const std::size_t block_first = static_cast<std::size_t>(blockIdx.x) * kBackwardRows;
  const std::size_t first = block_first + warp_index() * kTile;
  const std::size_t stride = 3 * head.channels;
  const auto begin_queries = [&](std::size_t query, unsigned pair) {
    begin_tile<size>(head, pass.qkv + head.place_in_qkv(0), stride, query,
                     memory.tiles.of[pair][0]);
    begin_tile<size>(head, pass.d_out + head.place_in_out(), head.channels, query,
                     memory.tiles.of[pair][1]);
    const bool of_delta = threadIdx.x >= kTileRows;
    const std::size_t i = threadIdx.x % kTileRows;
    const bool there = query + i < head.time;
    const float* from = (of_delta ? delta : pass.log_sum) + head.place_of_rows();
    begin_copy<sizeof(float)>((of_delta ? memory.delta : memory.log_sum)[pair] + i,
                              there ? from + query + i : from, there);
  };
  begin_queries(block_first, 0);
  Left<Real> keys[size / kTile], values[size / kTile];
  load_rows<size>(head, pass.qkv + head.place_in_qkv(1), stride, first, keys);
  load_rows<size>(head, pass.qkv + head.place_in_qkv(2), stride, first, values);
  Sums d_keys[size / kColumns] = {}, d_values[size / kColumns] = {};
  unsigned pair = 0;
  for (std::size_t query = block_first; query < head.time; query += kTileRows, pair ^= 1U) {
    wait_for_copies();
    __syncthreads();  // as above
    if (query + kTileRows < head.time) {
      begin_queries(query + kTileRows, pair ^ 1U);
    }
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const std::size_t from = query + half * kHalf;
      if (first >= head.time || from + kHalf <= first) {
        continue;  // no key, or only queries that come before this warp's keys
      }
      const Real* queries = memory.tiles.of[pair][0] + half * kHalf * kRowStride<size>;
      const Real* d_out = memory.tiles.of[pair][1] + half * kHalf * kRowStride<size>;
      const auto column = [&](unsigned n, unsigned i) {
        return half * kHalf + n * kColumns + fragment_column() + i % 2;
      };
      Sums scores[kHalf / kColumns] = {}, d_scores[kHalf / kColumns] = {};
      add_transposed<size, kHalf>(keys, queries, scores);
      add_transposed<size, kHalf>(values, d_out, d_scores);
      const std::size_t own = first + fragment_row();
      // Queries beyond the last are zeros with gradients of zeros, and so add nothing.
      gradients(
          factor, [&](unsigned n, unsigned i) { return memory.log_sum[pair][column(n, i)]; },
          [&](unsigned n, unsigned i) { return memory.delta[pair][column(n, i)]; },
          [&](unsigned n, unsigned i) { return own + i / 2 * 8 <= query + column(n, i); }, scores,
          d_scores);
      Left<Real> left[kHalf / kTile];
      as_left<kHalf>(scores, left);
      add_product<kHalf, size>(left, d_out, d_values);
      as_left<kHalf>(d_scores, left);
      add_product<kHalf, size>(left, queries, d_keys);
    }
  }
  store_rows<size>(head, d_keys, {factor, factor}, pass.d_qkv + head.place_in_qkv(1), stride,
                   first);
  store_rows<size>(head, d_values, {1.0F, 1.0F}, pass.d_qkv + head.place_in_qkv(2), stride, first);
}

/// A block for so many rows of each head of each sequence.
Grid blocks_for(const AttentionShape& shape, unsigned rows, std::size_t shared_bytes) {
  return {{blocks_of(shape.time, rows), static_cast<unsigned>(shape.batch * shape.heads), 1},
          {rows / kTile * kWarpSize, 1, 1},
          shared_bytes};
}

template <class Real, int size>
void run_forward(const AttentionForwardOf<Real>& pass, int device) {
  launch(device, blocks_for(pass.shape, kForwardRows, sizeof(TilePairs<Real, size>)),
         forward_kernel<Real, size>, pass, factor_of(pass.shape));
}

/// One after the other on the stream: the second reads the first one's delta, which stays in the
/// workspace until another layer asks for that.
template <class Real, int size>
void run_backward(const AttentionBackwardOf<Real>& pass, int device) {
  const AttentionShape& shape = pass.shape;
  auto* delta = static_cast<float*>(
      workspace(device, shape.batch * shape.time * shape.heads * sizeof(float)));
  const float factor = factor_of(shape);
  launch(device, blocks_for(shape, kBackwardRows, sizeof(TilePairs<Real, size>)),
         queries_kernel<Real, size>, pass, delta, factor);
  launch(device, blocks_for(shape, kBackwardRows, sizeof(QueryTiles<Real, size>)),
         keys_kernel<Real, size>, pass, delta, factor);
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
