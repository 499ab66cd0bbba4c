#include "trainer/layers/attention.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "ddp/error.h"
#include "trainer/layers/cuda/column_sums.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/head.cuh"
#include "trainer/layers/cuda/stages.cuh"
#include "trainer/layers/cuda/workspace.h"

// Flash attention (Dao 2023, FlashAttention-2) by warps that hold 16 rows each: what a warp sums up
// stays in its registers, and the rows that it goes over come through shared memory, the next tile
// while it works on this one. The scores of the next part are queued behind the products with this
// one's, so that a warpgroup waits once for both (Shah et al. 2024, FlashAttention-3). Exponentials
// are powers of two.
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
/// Queries are gone over in parts of so many, so that their products fit into registers beside
/// d_keys and d_values.
constexpr unsigned kKeysPart = 32;

float factor_of(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_size));
}

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

/// The first row of a block that has so many. The last rows come first: they look at the most keys.
__device__ unsigned from_the_last(unsigned rows) {
  return (gridDim.x - 1 - blockIdx.x) * rows;
}

/// The first of the rows of a block's warps that take the same path. The same in all lanes, which
/// the compiler must see: it queues products one by one where warps might part.
template <unsigned group>
__device__ unsigned first_of_group(unsigned block_first) {
  const unsigned warp = __shfl_sync(0xffffffffU, warp_index(), 0);
  return block_first + warp * kTile / group * group;
}

__device__ unsigned end_of(const Head& head, unsigned row) {
  return row < head.time ? row : head.time;
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
  const unsigned group_first = first_of_group<kGroup>(block_first);
  Left<Real> queries[size / kTile];
  load_rows<size>(head, head.in_qkv(pass.qkv, 0), first, queries);
  Sums scores[kTileRows / kColumns], out[size / kColumns] = {};
  Left<Real> probabilities[kTileRows / kTile];
  RowSums rows;
  // Behind it are only keys that come after all of this group's queries.
  const unsigned keys_end = group_first < head.time ? group_first + kGroup : 0;
  for_each_part<kTileRows>(
      0, end_of(head, block_first + kForwardRows),
      [&](unsigned key, unsigned stage) { tiles.begin(key, stage); },
      [&](unsigned key, unsigned stage, unsigned) {
        if (key < keys_end) {
          begin_products<size, Real>();
          set_transposed<size, kTileRows>(queries, tiles.tiles.of[stage][0], 0, scores);
        }
      },
      [&](unsigned key, unsigned stage, unsigned) {
        if (key < keys_end) {
          if (key + kTileRows > first + 1) {
            hide<kTileRows>([&](unsigned q, unsigned k) { return key + k <= first + q; }, scores);
          }
          softmax_tile<size>(factor * kLog2E, scores, out, rows);
          as_left<kTileRows>(scores, probabilities);
          begin_products<size, Real>(out);
          add_product<kTileRows, size>(probabilities, tiles.tiles.of[stage][1], 0, out);
        }
      },
      [&] { end_products<size, Real>(scores, out); });
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

/// The block's part of a bias's gradient: factor times the sums over its rows of `sums` (16 rows of
/// each warp, size), for the channels of this head among all (3 C).
template <unsigned warps, int size>
__device__ void put_column_sums(const Head& head, const Sums (&sums)[size / kColumns], float factor,
                                unsigned which, float* parts) {
  if (parts == nullptr) {
    return;
  }
  constexpr unsigned kRows = warps * 8;   // each the sum of a warp's rows g and g + 8
  constexpr unsigned kStride = size + 8;  // so that rows of eight floats lie in other banks
  auto* memory = shared_memory<float>();  // (kRows, kStride), in place of tiles that are done with
  __syncthreads();
#pragma unroll
  for (unsigned n = 0; n < size / kColumns; ++n) {
    const Pack<float, 2> pair = {sums[n].of[0] + sums[n].of[2], sums[n].of[1] + sums[n].of[3]};
    float* to =
        memory + (warp_index() * 8 + fragment_row()) * kStride + n * kColumns + fragment_column();
    *reinterpret_cast<Pack<float, 2>*>(to) = pair;
  }
  __syncthreads();
  if (threadIdx.x < head.size) {
    float sum = 0;
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) {
      sum += memory[row * kStride + threadIdx.x];
    }
    head.in_part(parts, which)[threadIdx.x] = sum * factor;
  }
}

/// Scores (16, part) become probabilities p = 2^(score factor - log_sum), and d_scores p (dp -
/// delta), which want the factor still. `exponent(n, i)` and `delta(n, i)`
/// are those of the query of sum i of product n.
template <int part, class Exponent, class Delta>
__device__ void gradients(float factor, const Exponent& exponent, const Delta& delta,
                          Sums (&scores)[part / kColumns], Sums (&d_scores)[part / kColumns]) {
#pragma unroll
  for (unsigned n = 0; n < part / kColumns; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const float probability = power_of_two(fmaf(scores[n].of[i], factor, -exponent(n, i)));
      scores[n].of[i] = probability;
      d_scores[n].of[i] = probability * (d_scores[n].of[i] - delta(n, i));
    }
  }
}

/// What the kernels leave for each other. Of each query (B, H, T): log_sum as a power's exponent,
/// and delta, the sum of out d_out over the head's channels. And of each block of rows, for
/// d_qkv_sum: the sums of its d_qkv (B ceil(T / 64), 3, H, D), or null.
struct BackwardScratch {
  float* exponent;
  float* delta;
  float* sums;
};

/// Those of rows g and g + 8, from the first of a warp's rows on.
template <int size, class Real>
__device__ void load_statistics(const AttentionBackwardOf<Real>& pass, const Head& head,
                                unsigned first, const BackwardScratch& all, float (&exponents)[2],
                                float (&deltas)[2]) {
  Left<Real> out[size / kTile], d_out[size / kTile];
  load_rows<size>(head, head.in_out(pass.out), first, out);
  load_rows<size>(head, head.in_out(pass.d_out), first, d_out);
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
      head.of_rows(all.exponent)[row] = exponents[half];
      head.of_rows(all.delta)[row] = deltas[half];
    }
  }
}

/// A block makes the gradients of 64 queries: S = Q K^T, dP = dO V^T, dQ = dS K. And delta (B, H,
/// T).
template <class Real, int size>
__global__ void __launch_bounds__(kBackwardWarps* kWarpSize, 3)
    queries_kernel(AttentionBackwardOf<Real> pass, BackwardScratch scratch, float factor) {
  const Head head(pass.shape);
  KeyTiles<Real, size, kBackwardWarps * kWarpSize> tiles(head, pass.qkv);
  const unsigned block_first = from_the_last(kBackwardRows);
  const unsigned first = block_first + warp_index() * kTile;
  constexpr unsigned kGroup = kRowsTogether<size, Real>;
  const unsigned group_first = first_of_group<kGroup>(block_first);
  constexpr unsigned kThreadsHere = kBackwardWarps * kWarpSize;
  OwnRows<size, Real> queries, d_out;
  queries.template begin<kThreadsHere>(head, head.in_qkv(pass.qkv, 0), block_first,
                                       own_tile<Real, size>(tiles.tiles, 0));
  d_out.template begin<kThreadsHere>(head, head.in_out(pass.d_out), block_first,
                                     own_tile<Real, size>(tiles.tiles, 1));
  float exponents[2], deltas[2] = {0, 0};
  load_statistics<size>(pass, head, first, scratch, exponents, deltas);
  Sums scores[kTileRows / kColumns], d_scores[kTileRows / kColumns];
  Sums d_queries[size / kColumns] = {};
  Left<Real> left[kTileRows / kTile];
  const unsigned keys_end = group_first < head.time ? group_first + kGroup : 0;  // as above
  for_each_part<kTileRows>(
      0, end_of(head, block_first + kBackwardRows),
      [&](unsigned key, unsigned stage) { tiles.begin(key, stage); },
      [&](unsigned key, unsigned stage, unsigned) {
        if (key < keys_end) {
          begin_products<size, Real>();
          set_transposed<size, kTileRows>(queries, tiles.tiles.of[stage][0], 0, scores);
          set_transposed<size, kTileRows>(d_out, tiles.tiles.of[stage][1], 0, d_scores);
        }
      },
      [&](unsigned key, unsigned stage, unsigned) {
        if (key < keys_end) {
          if (key + kTileRows > first + 1) {
            hide<kTileRows>([&](unsigned q, unsigned k) { return key + k <= first + q; }, scores);
          }
          gradients<kTileRows>(
              factor * kLog2E, [&](unsigned, unsigned i) { return exponents[i / 2]; },
              [&](unsigned, unsigned i) { return deltas[i / 2]; }, scores, d_scores);
          as_left<kTileRows>(d_scores, left);
          begin_products<size, Real>(d_queries);
          add_product<kTileRows, size>(left, tiles.tiles.of[stage][0], 0, d_queries);
        }
      },
      [&] { end_products<size, Real>(scores, d_scores, d_queries); });
  store_rows<size>(head, d_queries, {factor, factor}, head.in_qkv(pass.d_qkv, 0), first);
  put_column_sums<kBackwardWarps, size>(head, d_queries, factor, 0, scratch.sums);
}

/// Beside a pair of tiles, queries and their d_out: what belongs to each query.
template <class Real, int size>
struct alignas(1024) QueryTiles {
  TilePairs<Real, size> tiles;
  float exponent[kStages][kTileRows], delta[kStages][kTileRows];
};

/// The block begins to copy 64 queries from `query` on.
template <class Real, int size>
__device__ void begin_queries(const AttentionBackwardOf<Real>& pass, const Head& head,
                              const BackwardScratch& scratch, unsigned query, unsigned stage,
                              QueryTiles<Real, size>& to) {
  constexpr unsigned kThreadsHere = kBackwardWarps * kWarpSize;
  begin_tile<size, kThreadsHere>(head, head.in_qkv(pass.qkv, 0), query, to.tiles.of[stage][0]);
  begin_tile<size, kThreadsHere>(head, head.in_out(pass.d_out), query, to.tiles.of[stage][1]);
  static_assert(kThreadsHere == 2 * kTileRows);
  const bool of_delta = threadIdx.x >= kTileRows;
  const unsigned i = threadIdx.x % kTileRows;
  const bool there = query + i < head.time;
  const float* from = head.of_rows(of_delta ? scratch.delta : scratch.exponent);
  begin_copy<sizeof(float)>((of_delta ? to.delta : to.exponent)[stage] + i,
                            there ? from + query + i : from, there);
}

/// A block makes the gradients of 64 keys and values: S = K Q^T, dP = V dO^T, dK = dS Q, dV = P dO,
/// all transposed. It makes the scores once more, so that each block adds up its own rows in a
/// fixed order: atomic additions would give other bits in each run.
template <class Real, int size>
__global__ void __launch_bounds__(kBackwardWarps* kWarpSize, 3)
    keys_kernel(AttentionBackwardOf<Real> pass, BackwardScratch scratch, float factor) {
  auto& memory = *shared_memory<QueryTiles<Real, size>>();
  const Head head(pass.shape);
  const unsigned block_first = blockIdx.x * kBackwardRows;
  const unsigned first = block_first + warp_index() * kTile;
  constexpr unsigned kGroup = kRowsTogether<size, Real>;
  const unsigned group_first = first_of_group<kGroup>(block_first);
  constexpr unsigned kThreadsHere = kBackwardWarps * kWarpSize;
  OwnRows<size, Real> keys, values;
  keys.template begin<kThreadsHere>(head, head.in_qkv(pass.qkv, 1), block_first,
                                    own_tile<Real, size>(memory, 0));
  values.template begin<kThreadsHere>(head, head.in_qkv(pass.qkv, 2), block_first,
                                      own_tile<Real, size>(memory, 1));
  constexpr unsigned kPart = kKeysPart;
  Sums scores[kPart / kColumns], d_scores[kPart / kColumns];
  Sums d_keys[size / kColumns] = {}, d_values[size / kColumns] = {};
  Left<Real> probabilities[kPart / kTile], d_left[kPart / kTile];
  // Before it are only queries that come before all of this group's keys.
  const unsigned first_part = group_first < head.time ? group_first / kPart * kPart : head.time;
  for_each_part<kPart>(
      block_first, head.time,
      [&](unsigned tile, unsigned stage) {
        begin_queries(pass, head, scratch, tile, stage, memory);
      },
      [&](unsigned tile, unsigned stage, unsigned row) {
        if (tile + row >= first_part) {
          begin_products<size, Real>();
          set_transposed<size, kPart>(keys, memory.tiles.of[stage][0], row, scores);
          set_transposed<size, kPart>(values, memory.tiles.of[stage][1], row, d_scores);
        }
      },
      [&](unsigned tile, unsigned stage, unsigned row) {
        const unsigned query = tile + row;
        if (query >= first_part) {
          if (query < first + kTile - 1) {
            hide<kPart>([&](unsigned k, unsigned q) { return first + k <= query + q; }, scores);
          }
          // Queries beyond the last are zeros with gradients of zeros, and so add nothing.
          const unsigned column = row + fragment_column();
          const float* exponents = memory.exponent[stage] + column;
          const float* deltas = memory.delta[stage] + column;
          gradients<kPart>(
              factor * kLog2E,
              [&](unsigned n, unsigned i) { return exponents[n * kColumns + i % 2]; },
              [&](unsigned n, unsigned i) { return deltas[n * kColumns + i % 2]; }, scores,
              d_scores);
          as_left<kPart>(scores, probabilities);
          as_left<kPart>(d_scores, d_left);
          begin_products<size, Real>(d_values, d_keys);
          add_product<kPart, size>(probabilities, memory.tiles.of[stage][1], row, d_values);
          add_product<kPart, size>(d_left, memory.tiles.of[stage][0], row, d_keys);
        }
      },
      [&] { end_products<size, Real>(scores, d_scores, d_values, d_keys); });
  store_rows<size>(head, d_keys, {factor, factor}, head.in_qkv(pass.d_qkv, 1), first);
  store_rows<size>(head, d_values, {1.0F, 1.0F}, head.in_qkv(pass.d_qkv, 2), first);
  put_column_sums<kBackwardWarps, size>(head, d_keys, factor, 1, scratch.sums);
  put_column_sums<kBackwardWarps, size>(head, d_values, 1.0F, 2, scratch.sums);
}

/// A block for so many rows of each head of each sequence. CUDA counts 2^16 - 1 of those heads.
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

/// One after the other on the stream: the second reads what the first leaves, which stays in
/// the workspace until another layer asks for that.
template <class Real, int size>
void run_backward(const AttentionBackwardOf<Real>& pass, int device) {
  const AttentionShape& shape = pass.shape;
  const std::size_t queries = shape.batch * shape.time * shape.heads;
  const std::size_t parts = shape.batch * blocks_of(shape.time, kBackwardRows);
  const std::size_t columns = 3 * shape.channels();
  auto* memory =
      static_cast<float*>(workspace(device, (2 * queries + parts * columns) * sizeof(float)));
  const bool with_sums = pass.d_qkv_sum != nullptr;
  const BackwardScratch scratch{memory, memory + queries,
                                with_sums ? memory + 2 * queries : nullptr};
  const float factor = factor_of(shape);
  const std::size_t own = own_tiles_bytes<Real, size>(device);
  launch(device, blocks_for(shape, kBackwardRows, sizeof(TilePairs<Real, size>) + own),
         queries_kernel<Real, size>, pass, scratch, factor);
  launch(device, blocks_for(shape, kBackwardRows, sizeof(QueryTiles<Real, size>) + own),
         keys_kernel<Real, size>, pass, scratch, factor);
  if (with_sums) {
    queue_column_sums<1, 1>(device, PartTerms<1>{{{scratch.sums}}, columns}, parts, columns, 1,
                            {{pass.d_qkv_sum}}, true);
  }
}

void require_shape(const AttentionShape& shape) {
  if (shape.head_size > kGpuHeadSizeMax) {
    throw InvalidArgument("attention on a GPU takes heads of up to " +
                          std::to_string(kGpuHeadSizeMax) + " channels; these have " +
                          std::to_string(shape.head_size));
  }
  // The next attempt would have as many.
  if (shape.batch * shape.heads > kGpuHeadsMax) {
    throw DoNotRetry("attention on a GPU takes up to " + std::to_string(kGpuHeadsMax) +
                     " heads of all sequences together; " + std::to_string(shape.batch) +
                     " sequences of " + std::to_string(shape.heads) +
                     " heads are more: give a smaller --batch-size");
  }
}

}  // namespace

template <class Real>
void attention_forward(const AttentionForwardOf<Real>& pass, int device) {
  require_shape(pass.shape);
  // Two sizes are compiled; smaller heads are filled up with zeros, which change no score.
  pass.shape.head_size <= 32 ? run_forward<Real, 32>(pass, device)
                             : run_forward<Real, 64>(pass, device);
}

template <class Real>
void attention_backward(const AttentionBackwardOf<Real>& pass, int device) {
  require_shape(pass.shape);
  pass.shape.head_size <= 32 ? run_backward<Real, 32>(pass, device)
                             : run_backward<Real, 64>(pass, device);
}

template void attention_forward(const AttentionForwardOf<float>&, int);
template void attention_forward(const AttentionForwardOf<BFloat16>&, int);
template void attention_backward(const AttentionBackwardOf<float>&, int);
template void attention_backward(const AttentionBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
