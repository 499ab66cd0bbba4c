#include "trainer/layers/attention.h"

#include <cmath>
#include <cstddef>
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
/// The backward pass goes over a tile in parts of so many rows, so that their products fit into
/// registers: d_keys and d_values take more of them than d_queries.
constexpr unsigned kQueriesPart = 64;
constexpr unsigned kKeysPart = 32;

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
  float max[2] = {kHidden, kHidden};
  float sum[2] = {0, 0};
};

/// One tile's scores become probabilities that are not yet divided by their sum; what the rows have
/// so far is scaled to the new largest score.
template <int size>
__device__ void softmax_tile(float factor, Sums (&scores)[kTileRows / kColumns],
                             Sums (&out)[size / kColumns], RowSums& rows) {
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    float max = kHidden;
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

/// The keys and values of one head, tile by tile, for the queries of a block: those up to each.
template <class Real, int size, unsigned threads>
struct KeyTiles {
  const Head& head;
  HeadRows<const Real> keys, values;
  TilePairs<Real, size>& tiles;

  __device__ KeyTiles(const Head& of, const Real* qkv)
      : head(of),
        keys(of.in_qkv(qkv, 1)),
        values(of.in_qkv(qkv, 2)),
        tiles(*shared_memory<TilePairs<Real, size>>()) {
    begin(0, 0);
  }
  __device__ void begin(unsigned key, unsigned pair) {
    begin_tile<size, threads>(head, keys, key, tiles.of[pair][0]);
    begin_tile<size, threads>(head, values, key, tiles.of[pair][1]);
  }
  /// The whole block calls `use(key, keys, values)` for each tile of keys before `end`.
  template <class Use>
  __device__ void for_each(unsigned end, const Use& use) {
    end = end < head.time ? end : head.time;
    unsigned pair = 0;
    for (unsigned key = 0; key < end; key += kTileRows, pair ^= 1U) {
      wait_for_copies();
      __syncthreads();  // this pair is there, and all have done with the other
      if (key + kTileRows < end) {
        begin(key + kTileRows, pair ^ 1U);
      }
      use(key, tiles.of[pair][0], tiles.of[pair][1]);
    }
  }
};

/// The first row of a block that has so many. The last rows come first: they look at the most keys.
__device__ unsigned from_the_last(unsigned rows) {
  return (gridDim.x - 1 - blockIdx.x) * rows;
}

/// A block has 128 queries of one head, and goes over their keys once.
template <class Real, int size>
__global__ void __launch_bounds__(kForwardWarps* kWarpSize, 2)
    forward_kernel(AttentionForwardOf<Real> pass, float factor) {
  const Head head(pass.shape);
  KeyTiles<Real, size, kForwardWarps * kWarpSize> tiles(head, pass.qkv);
  const unsigned block_first = from_the_last(kForwardRows);
  const unsigned first = block_first + warp_index() * kTile;
  constexpr unsigned kGroup = kRowsTogether<size, Real>;
  const unsigned group_first = first / kGroup * kGroup;
  Left<Real> queries[size / kTile];
  load_rows<size>(head, head.in_qkv(pass.qkv, 0), first, queries);
  Sums out[size / kColumns] = {};
  RowSums rows;
  tiles.for_each(
      block_first + kForwardRows, [&](unsigned key, const Real* keys, const Real* values) {
        if (group_first >= head.time || key >= group_first + kGroup) {
          return;  // no query, or only keys that come after this warp's queries
        }
        Sums scores[kTileRows / kColumns] = {};
        begin_products<size, Real>(scores);
        add_transposed<size, kTileRows>(queries, keys, 0, scores);
        end_products<size, Real>(scores);
        if (key + kTileRows > first + 1) {
          hide<kTileRows>([&](unsigned q, unsigned k) { return key + k <= first + q; }, scores);
        }
        softmax_tile<size>(factor * kLog2E, scores, out, rows);
        Left<Real> probabilities[kTileRows / kTile];
        as_left<kTileRows>(scores, probabilities);
        begin_products<size, Real>(out);
        add_product<kTileRows, size>(probabilities, values, 0, out);
        end_products<size, Real>(out);
      });
  float inverse[2];
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const float sum = row_sum(rows.sum[half]);
    inverse[half] = 1.0F / sum;
    const unsigned row = first + fragment_row() + half * 8;
    if (lane_index() % 4 == 0 && row < head.time) {
      head.of_rows(pass.log_sum)[row] = rows.max[half] * kLn2 + logf(sum);
    }
  }
  store_rows<size>(head, out, inverse, head.in_out(pass.out), first);
}

/// Scores (16, part) become probabilities p = 2^(score factor - log_sum), and d_scores p (dp -
/// delta), which want the factor still. `log_sum(n, i)`, as the power's exponent, and `delta(n, i)`
/// are those of the query of sum i of product n.
template <int part, class LogSum, class Delta>
__device__ void gradients(float factor, const LogSum& log_sum, const Delta& delta,
                          Sums (&scores)[part / kColumns], Sums (&d_scores)[part / kColumns]) {
#pragma unroll
  for (unsigned n = 0; n < part / kColumns; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const float probability = power_of_two(fmaf(scores[n].of[i], factor, -log_sum(n, i)));
      scores[n].of[i] = probability;
      d_scores[n].of[i] = probability * (d_scores[n].of[i] - delta(n, i));
    }
  }
}

/// Of rows g and g + 8, from the first of a warp's rows on: their log_sum as a power's exponent,
/// and their delta, the sum of out d_out over the head's channels, which is also kept for
/// keys_kernel.
template <int size, class Real>
__device__ void load_statistics(const AttentionBackwardOf<Real>& pass, const Head& head,
                                unsigned first, const Left<Real> (&d_out)[size / kTile],
                                float* delta, float (&exponents)[2], float (&deltas)[2]) {
  Left<Real> out[size / kTile];
  load_rows<size>(head, head.in_out(pass.out), first, out);
#pragma unroll
  for (unsigned k = 0; k < size / kTile; ++k) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      deltas[i % 2] += low_of(out[k].of[i]) * low_of(d_out[k].of[i]) +
                       high_of(out[k].of[i]) * high_of(d_out[k].of[i]);
    }
  }
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    deltas[half] = row_sum(deltas[half]);
    const unsigned row = first + fragment_row() + half * 8;
    const bool there = row < head.time;
    exponents[half] = there ? head.of_rows(pass.log_sum)[row] * kLog2E : 0.0F;
    if (there && lane_index() % 4 == 0) {
      head.of_rows(delta)[row] = deltas[half];
    }
  }
}

/// A block makes the gradients of 64 queries: S = Q K^T, dP = dO V^T, dQ = dS K. And delta (B, H,
/// T).
template <class Real, int size>
__global__ void __launch_bounds__(kBackwardWarps* kWarpSize, 3)
    queries_kernel(AttentionBackwardOf<Real> pass, float* delta, float factor) {
  const Head head(pass.shape);
  KeyTiles<Real, size, kBackwardWarps * kWarpSize> tiles(head, pass.qkv);
  const unsigned block_first = from_the_last(kBackwardRows);
  const unsigned first = block_first + warp_index() * kTile;
  constexpr unsigned kGroup = kRowsTogether<size, Real>;
  const unsigned group_first = first / kGroup * kGroup;
  Left<Real> queries[size / kTile], d_out[size / kTile];
  load_rows<size>(head, head.in_qkv(pass.qkv, 0), first, queries);
  load_rows<size>(head, head.in_out(pass.d_out), first, d_out);
  float exponents[2], deltas[2] = {0, 0};
  load_statistics<size>(pass, head, first, d_out, delta, exponents, deltas);
  constexpr unsigned kPart = kQueriesPart;
  Sums d_queries[size / kColumns] = {};
  tiles.for_each(
      block_first + kBackwardRows, [&](unsigned key, const Real* keys, const Real* values) {
#pragma unroll
        for (unsigned part = 0; part < kTileRows; part += kPart, key += kPart) {
          if (group_first >= head.time || key >= group_first + kGroup) {
            return;  // as above
          }
          Sums scores[kPart / kColumns] = {}, d_scores[kPart / kColumns] = {};
          begin_products<size, Real>(scores, d_scores);
          add_transposed<size, kPart>(queries, keys, part, scores);
          add_transposed<size, kPart>(d_out, values, part, d_scores);
          end_products<size, Real>(scores, d_scores);
          if (key + kPart > first + 1) {
            hide<kPart>([&](unsigned q, unsigned k) { return key + k <= first + q; }, scores);
          }
          gradients<kPart>(
              factor * kLog2E, [&](unsigned, unsigned i) { return exponents[i / 2]; },
              [&](unsigned, unsigned i) { return deltas[i / 2]; }, scores, d_scores);
          Left<Real> left[kPart / kTile];
          as_left<kPart>(d_scores, left);
          begin_products<size, Real>(d_queries);
          add_product<kPart, size>(left, keys, part, d_queries);
          end_products<size, Real>(d_queries);
        }
      });
  store_rows<size>(head, d_queries, {factor, factor}, head.in_qkv(pass.d_qkv, 0), first);
}

/// Beside a pair of tiles, queries and their d_out: what belongs to each query.
template <class Real, int size>
struct QueryTiles {
  TilePairs<Real, size> tiles;
  float log_sum[2][kTileRows], delta[2][kTileRows];
};

/// The block begins to copy 64 queries from `query` on.
template <class Real, int size>
__device__ void begin_queries(const AttentionBackwardOf<Real>& pass, const Head& head,
                              const float* delta, unsigned query, unsigned pair,
                              QueryTiles<Real, size>& to) {
  constexpr unsigned kThreadsHere = kBackwardWarps * kWarpSize;
  begin_tile<size, kThreadsHere>(head, head.in_qkv(pass.qkv, 0), query, to.tiles.of[pair][0]);
  begin_tile<size, kThreadsHere>(head, head.in_out(pass.d_out), query, to.tiles.of[pair][1]);
  static_assert(kThreadsHere == 2 * kTileRows);
  const bool of_delta = threadIdx.x >= kTileRows;
  const unsigned i = threadIdx.x % kTileRows;
  const bool there = query + i < head.time;
  const float* from = head.of_rows(of_delta ? delta : pass.log_sum);
  begin_copy<sizeof(float)>((of_delta ? to.delta : to.log_sum)[pair] + i,
                            there ? from + query + i : from, there);
}

/// A block makes the gradients of 64 keys and values: S = K Q^T, dP = V dO^T, dK = dS Q, dV = P dO,
/// all transposed. It makes the scores once more, so that each block adds up its own rows in a
/// fixed order: atomic additions would give other bits in each run.
template <class Real, int size>
__global__ void __launch_bounds__(kBackwardWarps* kWarpSize, 3)
    keys_kernel(AttentionBackwardOf<Real> pass, const float* delta, float factor) {
  auto& memory = *shared_memory<QueryTiles<Real, size>>();
  const Head head(pass.shape);
  const unsigned block_first = blockIdx.x * kBackwardRows;
  const unsigned first = block_first + warp_index() * kTile;
  constexpr unsigned kGroup = kRowsTogether<size, Real>;
  const unsigned group_first = first / kGroup * kGroup;
  begin_queries(pass, head, delta, block_first, 0, memory);
  Left<Real> keys[size / kTile], values[size / kTile];
  load_rows<size>(head, head.in_qkv(pass.qkv, 1), first, keys);
  load_rows<size>(head, head.in_qkv(pass.qkv, 2), first, values);
  constexpr unsigned kPart = kKeysPart;
  Sums d_keys[size / kColumns] = {}, d_values[size / kColumns] = {};
  unsigned pair = 0;
  for (unsigned tile = block_first; tile < head.time; tile += kTileRows, pair ^= 1U) {
    wait_for_copies();
    __syncthreads();  // as above
    if (tile + kTileRows < head.time) {
      begin_queries(pass, head, delta, tile + kTileRows, pair ^ 1U, memory);
    }
#pragma unroll
    for (unsigned part = 0; part < kTileRows; part += kPart) {
      const unsigned query = tile + part;
      if (group_first >= head.time || query + kPart <= group_first) {
        continue;  // no key, or only queries that come before this warp's keys
      }
      const Real* queries = memory.tiles.of[pair][0];
      const Real* d_out = memory.tiles.of[pair][1];
      Sums scores[kPart / kColumns] = {}, d_scores[kPart / kColumns] = {};
      begin_products<size, Real>(scores, d_scores);
      add_transposed<size, kPart>(keys, queries, part, scores);
      add_transposed<size, kPart>(values, d_out, part, d_scores);
      end_products<size, Real>(scores, d_scores);
      if (query < first + kTile - 1) {
        hide<kPart>([&](unsigned k, unsigned q) { return first + k <= query + q; }, scores);
      }
      // Queries beyond the last are zeros with gradients of zeros, and so add nothing.
      const unsigned column = part + fragment_column();
      const float* log_sums = memory.log_sum[pair] + column;
      const float* deltas = memory.delta[pair] + column;
      gradients<kPart>(
          factor * kLog2E,
          [&](unsigned n, unsigned i) { return log_sums[n * kColumns + i % 2] * kLog2E; },
          [&](unsigned n, unsigned i) { return deltas[n * kColumns + i % 2]; }, scores, d_scores);
      Left<Real> probabilities[kPart / kTile], d_left[kPart / kTile];
      as_left<kPart>(scores, probabilities);
      as_left<kPart>(d_scores, d_left);
      begin_products<size, Real>(d_values, d_keys);
      add_product<kPart, size>(probabilities, d_out, part, d_values);
      add_product<kPart, size>(d_left, queries, part, d_keys);
      end_products<size, Real>(d_values, d_keys);
    }
  }
  store_rows<size>(head, d_keys, {factor, factor}, head.in_qkv(pass.d_qkv, 1), first);
  store_rows<size>(head, d_values, {1.0F, 1.0F}, head.in_qkv(pass.d_qkv, 2), first);
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
