// A tile of a product: kTileRows x kTileColumns sums that stay in registers while k goes by. All
// products of the CPU forms are made of tiles.
#pragma once

#include <cstddef>

#include "trainer/layers/level.h"

namespace ddp::DDP_LEVEL {

using Vector = float __attribute__((vector_size(kVectorBytes)));
/// The same, from memory that is aligned to a float only and read as other types, too.
using LooseVector =
    float __attribute__((vector_size(kVectorBytes), aligned(sizeof(float)), may_alias));

struct Tile {
  const float* a = nullptr;
  std::size_t a_row = 0;   ///< from one row of a to the next
  std::size_t a_step = 0;  ///< from one k to the next
  const float* b = nullptr;
  std::size_t b_step = 0;  ///< from one k to the next; kTileColumns are read at each
  float* out = nullptr;
  std::size_t out_row = 0;  ///< kTileColumns are written in each row
  std::size_t k = 0;
  bool add = false;
};

/// Sums run over k in ascending order, one product at a time.
template <std::size_t rows>
[[gnu::noinline]] void compute_tile_of(const Tile& tile) {
  Vector sums[rows][2] = {};
  const float* a = tile.a;
  const float* b = tile.b;
  for (std::size_t k = 0; k < tile.k; ++k) {
    const Vector left = *reinterpret_cast<const LooseVector*>(b);
    const Vector right = *reinterpret_cast<const LooseVector*>(b + kLanes);
#pragma GCC unroll 16
    for (std::size_t row = 0; row < rows; ++row) {
      const float factor = a[row * tile.a_row];
      sums[row][0] += factor * left;
      sums[row][1] += factor * right;
    }
    a += tile.a_step;
    b += tile.b_step;
  }
#pragma GCC unroll 16
  for (std::size_t row = 0; row < rows; ++row) {
    auto* out = reinterpret_cast<LooseVector*>(tile.out + row * tile.out_row);
    auto* out_right = reinterpret_cast<LooseVector*>(tile.out + row * tile.out_row + kLanes);
    *out = tile.add ? *out + sums[row][0] : sums[row][0];
    *out_right = tile.add ? *out_right + sums[row][1] : sums[row][1];
  }
}

/// 1 to kTileRows rows.
inline __attribute__((always_inline)) void compute_tile(const Tile& tile, std::size_t rows) {
  switch (rows) {
    case 1:
      return compute_tile_of<1>(tile);
    case 2:
      return compute_tile_of<2>(tile);
    case 3:
      return compute_tile_of<3>(tile);
    case 4:
      return compute_tile_of<4>(tile);
    case 5:
      return compute_tile_of<5>(tile);
    case 6:
      return compute_tile_of<6>(tile);
    default:
      break;
  }
  if constexpr (kTileRows == 12) {
    switch (rows) {
      case 7:
        return compute_tile_of<7>(tile);
      case 8:
        return compute_tile_of<8>(tile);
      case 9:
        return compute_tile_of<9>(tile);
      case 10:
        return compute_tile_of<10>(tile);
      case 11:
        return compute_tile_of<11>(tile);
      default:
        return compute_tile_of<12>(tile);
    }
  }
}

}  // namespace ddp::DDP_LEVEL
