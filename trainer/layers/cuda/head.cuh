// One head of one sequence in attention's tensors, and its tiles of 64 rows in shared memory.
#pragma once

#include "trainer/layers/attention.h"
#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/cuda/warp_tile.cuh"
#include "trainer/layers/number.h"

namespace ddp::gpu {

/// Of a tile, and of a block: four warps with 16 rows each.
inline constexpr unsigned kRows = 64;
inline constexpr unsigned kHeadThreads = kRows / kTile * kWarpSize;

/// From one row to the next in shared memory. Of Reals: 16 bytes more than a power of two spread
/// the rows over the banks. Of floats: so that the two lanes of each row meet few others.
template <int columns>
inline constexpr unsigned kRealStride = columns + 8;
template <int columns>
inline constexpr unsigned kFloatStride = columns + 4;

/// Reals of a tile (kRows, columns).
template <int columns>
inline constexpr unsigned kTileReals = kRows* kRealStride<columns>;

/// Which of them a block works on: blockIdx.y is sequence and head.
struct Head {
  std::size_t time, size, sequence, head, channels;

  __device__ explicit Head(const AttentionShape& shape)
      : time(shape.time),
        size(shape.head_size),
        sequence(blockIdx.y / shape.heads),
        head(blockIdx.y % shape.heads),
        channels(shape.heads * shape.head_size) {}

  /// Of queries (0), keys (1) or values (2) in a tensor (B, T, 3, H, D), whose rows are 3 C apart.
  [[nodiscard]] __device__ std::size_t place_in_qkv(std::size_t which) const {
    return sequence * time * 3 * channels + which * channels + head * size;
  }
  /// In a tensor (B, T, H, D), whose rows are C apart.
  [[nodiscard]] __device__ std::size_t place_in_out() const {
    return sequence * time * channels + head * size;
  }
  /// In a tensor (B, H, T).
  [[nodiscard]] __device__ std::size_t place_of_rows() const { return blockIdx.y * time; }
};

/// The whole block copies rows from `first` on into a tile (kRows, columns); 0 where there is no
/// row, and behind the head's size.
template <int columns, class Real>
__device__ void load_tile(const Head& head, const Real* from, std::size_t stride, std::size_t first,
                          Real* tile) {
  constexpr unsigned kCount = kPackOf<Real>;
  constexpr unsigned kPacks = columns / kCount;
  // Then every row begins at a multiple of 16 bytes.
  const bool whole = head.size % kCount == 0;
  for (unsigned i = threadIdx.x; i < kRows * kPacks; i += kHeadThreads) {
    const std::size_t row = first + i / kPacks;
    const unsigned column = i % kPacks * kCount;
    Pack<Real, kCount> pack;
    if (whole && row < head.time && column < head.size) {
      pack = load_pack<kCount>(from + row * stride + column);
    } else {
      for (unsigned k = 0; k < kCount; ++k) {
        const bool there = row < head.time && column + k < head.size;
        pack.of[k] = there ? from[row * stride + column + k] : rounded<Real>(0);
      }
    }
    store_pack(tile + i / kPacks * kRealStride<columns> + column, pack);
  }
}

/// A warp writes its 16 rows, times `factor(row)`, from floats in shared memory.
template <int columns, class Real, class Factor>
__device__ void store_rows(const Head& head, const float* rows, const Factor& factor, Real* to,
                           std::size_t stride, std::size_t first) {
  constexpr unsigned kCount = kPackOf<Real>;
  constexpr unsigned kPacks = columns / kCount;
  const bool whole = head.size % kCount == 0;  // as in load_tile()
  for (unsigned i = lane_index(); i < kTile * kPacks; i += kWarpSize) {
    const unsigned row = i / kPacks;
    const unsigned column = i % kPacks * kCount;
    if (first + row >= head.time || column >= head.size) {
      continue;
    }
    const float* from = rows + row * kFloatStride<columns> + column;
    Real* place = to + (first + row) * stride + column;
    Pack<Real, kCount> pack;
    for (unsigned k = 0; k < kCount; ++k) {
      pack.of[k] = rounded<Real>(from[k] * factor(row));
    }
    if (whole) {
      store_pack(place, pack);
    } else {
      for (unsigned k = 0; k < kCount && column + k < head.size; ++k) {
        place[k] = pack.of[k];
      }
    }
  }
}

}  // namespace ddp::gpu
