// One head of one sequence in attention's tensors: its rows as a warp's factors, and its tiles of
// 64 rows in shared memory.
#pragma once

#include "trainer/layers/attention.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/cuda/tensor_cores.cuh"

namespace ddp::gpu {

/// Of a tile.
inline constexpr unsigned kTileRows = 64;

/// Reals of a tile (kTileRows, columns).
template <int columns>
inline constexpr unsigned kTileReals = kTileRows* columns;

/// Whether heads of that size are multiplied by warpgroups. All four warps take the same path then.
template <int size, class Real>
inline constexpr bool kByWarpgroups = kWarpgroups&& size == 64 && sizeof(Real) == 2;

/// Rows of those warps that take the same path.
template <int size, class Real>
inline constexpr unsigned kRowsTogether = kByWarpgroups<size, Real> ? 4 * kTile : kTile;

/// A matrix of one head within a tensor: its first row, and from there to the next. Places within a
/// sequence are in 32 bits, which are half of the registers.
template <class Real>
struct HeadRows {
  Real* first;
  unsigned stride;
};

/// Which of them a block works on: blockIdx.y is sequence and head.
struct Head {
  unsigned time, size, channels;

  __device__ explicit Head(const AttentionShape& shape)
      : time(static_cast<unsigned>(shape.time)),
        size(static_cast<unsigned>(shape.head_size)),
        channels(static_cast<unsigned>(shape.heads * shape.head_size)),
        sequence_(blockIdx.y / static_cast<unsigned>(shape.heads)),
        head_(blockIdx.y % static_cast<unsigned>(shape.heads)) {}

  /// Queries (0), keys (1) or values (2) in a tensor (B, T, 3, H, D).
  template <class Real>
  [[nodiscard]] __device__ HeadRows<Real> in_qkv(Real* tensor, unsigned which) const {
    return {tensor + (sequence_ * time * 3 + which) * channels + head_ * size, 3 * channels};
  }
  /// In a tensor (B, T, H, D).
  template <class Real>
  [[nodiscard]] __device__ HeadRows<Real> in_out(Real* tensor) const {
    return {tensor + sequence_ * time * channels + head_ * size, channels};
  }
  /// This block's part of a tensor (B gridDim.x, 3, H, D): of queries (0), keys (1) or values (2).
  [[nodiscard]] __device__ float* in_part(float* tensor, unsigned which) const {
    return tensor + ((sequence_ * gridDim.x + blockIdx.x) * 3 + which) * channels + head_ * size;
  }
  /// In a tensor (B, H, T).
  template <class T>
  [[nodiscard]] __device__ T* of_rows(T* tensor) const {
    return tensor + static_cast<std::size_t>(blockIdx.y) * time;
  }

 private:
  std::size_t sequence_, head_;
};

/// A warp's 16 rows from `first` on as left factors (16, columns); zeros where there is no row, and
/// behind the head's size.
template <int columns, class Real>
__device__ void load_rows(const Head& head, const HeadRows<const Real>& from, unsigned first,
                          Left<Real> (&to)[columns / kTile]) {
  // Then no pair lies across the end, and all begin at multiples of their size.
  const bool in_pairs = head.size % 2 == 0;
#pragma unroll
  for (unsigned k = 0; k < columns / kTile; ++k) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = first + fragment_row() + i % 2 * 8;
      const unsigned column = k * kTile + i / 2 * 8 + fragment_column();
      const Real* place = from.first + std::size_t{row} * from.stride + column;
      const bool there = row < head.time && column < head.size;
      if (there && in_pairs) {
        to[k].of[i] = *reinterpret_cast<const Pair<Real>*>(place);
      } else {
        const Real none = rounded<Real>(0);
        to[k].of[i] =
            pair_of(there ? place[0] : none, there && column + 1 < head.size ? place[1] : none);
      }
    }
  }
}

/// The warp writes sums (16, columns) as such rows; those of row g times factors[0], the others
/// times factors[1].
template <int columns, class Real>
__device__ void store_rows(const Head& head, const Sums (&sums)[columns / kColumns],
                           const float (&factors)[2], const HeadRows<Real>& to, unsigned first) {
  const bool in_pairs = head.size % 2 == 0;
#pragma unroll
  for (unsigned n = 0; n < columns / kColumns; ++n) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned row = first + fragment_row() + half * 8;
      const unsigned column = n * kColumns + fragment_column();
      if (row >= head.time || column >= head.size) {
        continue;
      }
      const float low = sums[n].of[2 * half] * factors[half];
      const float high = sums[n].of[2 * half + 1] * factors[half];
      Real* place = to.first + std::size_t{row} * to.stride + column;
      if (in_pairs) {
        *reinterpret_cast<Pair<Real>*>(place) = rounded_pair<Real>(low, high);
        continue;
      }
      place[0] = rounded<Real>(low);
      if (column + 1 < head.size) {
        place[1] = rounded<Real>(high);
      }
    }
  }
}

/// The whole block begins to copy 64 rows from `first` on into a tile (kTileRows, columns); zeros
/// as in load_rows(). They are there after wait_for_copies() and a barrier.
template <int columns, unsigned threads, class Real>
__device__ void begin_tile(const Head& head, const HeadRows<const Real>& from, unsigned first,
                           Real* tile) {
  constexpr unsigned kCount = kPackOf<Real>;
  constexpr unsigned kPacks = columns / kCount;
  constexpr unsigned kRows = threads / kPacks;  // at a time
  static_assert(kRows % 8 == 0);                // so that they lie alike (place_in_tile)
  const unsigned column = threadIdx.x % kPacks * kCount;
  const unsigned begin = threadIdx.x / kPacks;
  const Real* place = from.first + std::size_t{first + begin} * from.stride + column;
  Real* to = tile + place_in_tile<columns, Real>(begin, column);
  if (head.size == columns && first + kTileRows <= head.time) {  // nearly always
#pragma unroll
    for (unsigned row = 0; row < kTileRows; row += kRows) {
      begin_copy<16>(to + row * columns, place + std::size_t{row} * from.stride, true);
    }
    return;
  }
  for (unsigned row = 0; row < kTileRows; row += kRows, place += kRows * from.stride) {
    const bool is_row = first + begin + row < head.time;
    if (head.size % kCount == 0) {  // then every row begins at a multiple of 16 bytes
      const bool there = is_row && column < head.size;
      begin_copy<16>(to + row * columns, there ? place : from.first, there);
      continue;
    }
    for (unsigned k = 0; k < kCount; ++k) {
      to[row * columns + k] = is_row && column + k < head.size ? place[k] : rounded<Real>(0);
    }
  }
}

/// Around the products below, warpgroups queue them together. Before: with all sums that they add
/// to. After: with all sums that they make.
template <int size, class Real, unsigned... counts>
__device__ void begin_products(Sums (&... sums)[counts]) {
  if constexpr (kByWarpgroups<size, Real>) {
    begin_group(sums...);
  }
}
template <int size, class Real, unsigned... counts>
__device__ void end_products(Sums (&... sums)[counts]) {
  if constexpr (kByWarpgroups<size, Real>) {
    end_group(sums...);
  }
}

/// sums (16, columns) += left (16, depth) right, by warps that load their right factors themselves:
/// `load(k, n, right)` gives those that begin at row k and column n.
template <int depth, int columns, class Real, class Load>
__device__ void add_by_warps(const Left<Real> (&left)[depth / kTile], const Load& load,
                             Sums (&sums)[columns / kColumns]) {
#pragma unroll
  for (unsigned k = 0; k < depth / kTile; ++k) {
#pragma unroll
    for (unsigned n = 0; n < columns / kTile; ++n) {
      Right<Real> right[2];
      load(k * kTile, n * kTile, right);
      multiply_add(left[k], right[0], sums[2 * n]);
      multiply_add(left[k], right[1], sums[2 * n + 1]);
    }
  }
}

/// The 16 rows of each of a block's warps as left factors that stay the same: in registers, or, of
/// one warpgroup, in a tile that its products read.
template <int columns, class Real>
struct OwnRows {
  const Real* tile = nullptr;
  Left<Real> left[kByWarpgroups<columns, Real> ? 1 : columns / kTile];

  /// `memory` is for kTileReals<columns>; a tile is there as begin_tile() says. The block has
  /// kTileRows rows from `block_first` on, and `threads` threads.
  template <unsigned threads>
  __device__ void begin(const Head& head, const HeadRows<const Real>& from, unsigned block_first,
                        Real* memory) {
    if constexpr (kByWarpgroups<columns, Real>) {
      begin_tile<columns, threads>(head, from, block_first, memory);
      tile = memory;
    } else {
      load_rows<columns>(head, from, block_first + warp_index() * kTile, left);
    }
  }
};

/// sums (16, columns) = left (16, depth) tile^T, of `columns` rows of a tile from `row` on.
template <int depth, int columns, class Real>
__device__ void set_transposed(const Left<Real> (&left)[depth / kTile], const Real* tile,
                               unsigned row, Sums (&sums)[columns / kColumns]) {
  if constexpr (kByWarpgroups<depth, Real>) {
    queue_by_group<depth, columns, true, false>(left, tile, row, sums);
  } else {
#pragma unroll
    for (unsigned n = 0; n < columns / kColumns; ++n) {
      sums[n] = {};
    }
    add_by_warps<depth, columns>(
        left,
        [&](unsigned k, unsigned n, Right<Real>(&right)[2]) {
          load_rights_transposed<depth>(tile, row + n, k, right);
        },
        sums);
  }
}

template <int depth, int columns, class Real>
__device__ void set_transposed(const OwnRows<depth, Real>& rows, const Real* tile, unsigned row,
                               Sums (&sums)[columns / kColumns]) {
  if constexpr (kByWarpgroups<depth, Real>) {
    queue_tiles<depth, columns>(rows.tile, tile, row, sums);
  } else {
    set_transposed<depth, columns>(rows.left, tile, row, sums);
  }
}

/// sums (16, columns) += left (16, depth) tile, of `depth` rows of a tile from `row` on.
template <int depth, int columns, class Real>
__device__ void add_product(const Left<Real> (&left)[depth / kTile], const Real* tile, unsigned row,
                            Sums (&sums)[columns / kColumns]) {
  if constexpr (kByWarpgroups<columns, Real>) {
    queue_by_group<depth, columns, false, true>(left, tile, row, sums);
  } else {
    add_by_warps<depth, columns>(
        left,
        [&](unsigned k, unsigned n, Right<Real>(&right)[2]) {
          load_rights<columns>(tile, row + k, n, right);
        },
        sums);
  }
}

/// Sums as the left factors of the next product.
template <int columns, class Real>
__device__ void as_left(const Sums (&sums)[columns / kColumns],
                        Left<Real> (&left)[columns / kTile]) {
#pragma unroll
  for (unsigned k = 0; k < columns / kTile; ++k) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const Sums& from = sums[2 * k + i / 2];
      left[k].of[i] = rounded_pair<Real>(from.of[i % 2 * 2], from.of[i % 2 * 2 + 1]);
    }
  }
}

/// Far below every score; infinity would make NaN of its difference to itself.
inline constexpr float kHidden = -1e30F;

/// Scores that are not `seen(row, column)` get no probability. Rows and columns of the sums.
template <int columns, class Seen>
__device__ void hide(const Seen& seen, Sums (&scores)[columns / kColumns]) {
#pragma unroll
  for (unsigned n = 0; n < columns / kColumns; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (!seen(fragment_row() + i / 2 * 8, n * kColumns + fragment_column() + i % 2)) {
        scores[n].of[i] = kHidden;
      }
    }
  }
}

/// Of what the four lanes that share a row hold.
__device__ inline float row_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}
__device__ inline float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 2));
}

}  // namespace ddp::gpu
