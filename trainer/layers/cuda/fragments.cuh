// What a warp multiplies on the tensor cores, spread over its lanes as mma.m16n8k16 has it (PTX
// ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"): lane 4 g + t holds pairs of
// neighbours at columns 2 t and 2 t + 8 of rows g and g + 8. Sums of one product lie as the left
// factor of the next one does, so that probabilities go on without a way through memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ddp/tensor.h"
#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/number.h"

namespace ddp::gpu {

/// Both sides of the left factor, and the depth of a product.
inline constexpr unsigned kTile = 16;
/// Columns of the right factor and of the sums.
inline constexpr unsigned kColumns = 8;

/// Two neighbours of a row.
template <class Real>
struct Pair {
  Real low, high;
};
/// In one register.
template <>
struct Pair<BFloat16> {
  std::uint32_t bits;
};

/// (16, 16): of[0] and of[1] are rows g and g + 8 at column 2 t, of[2] and of[3] at 2 t + 8.
template <class Real>
struct Left {
  Pair<Real> of[4];
};
/// (16, 8): of[0] is rows 2 t and 2 t + 1 of column g, of[1] is eight rows below.
template <class Real>
struct Right {
  Pair<Real> of[2];
};
/// (16, 8): the first two are row g at columns 2 t and 2 t + 1, the others row g + 8.
struct Sums {
  float of[4];
};

/// Where an element of a tile (rows, columns) lies in shared memory. Of bf16: 16 bytes change
/// places within each row, as the tensor cores read them ("swizzle" in the PTX ISA), so that eight
/// rows lie in all banks. Rows are 128 or 64 bytes; a tile begins at a multiple of 1024.
template <int columns, class Real>
__device__ unsigned place_in_tile(unsigned row, unsigned column) {
  if constexpr (sizeof(Real) == sizeof(float)) {
    return row * columns + column;
  } else {
    static_assert(columns == 64 || columns == 32);
    const unsigned turn = columns == 64 ? row % 8 : row / 2 % 4;
    return row * columns + ((column / 8) ^ turn) * 8 + column % 8;
  }
}

__device__ inline unsigned fragment_row() {
  return lane_index() / 4;
}
__device__ inline unsigned fragment_column() {
  return lane_index() % 4 * 2;
}

template <class Real>
__device__ Pair<Real> pair_of(Real low, Real high) {
  if constexpr (sizeof(Real) == sizeof(float)) {
    return {low, high};
  } else {
    return {low.bits | static_cast<std::uint32_t>(high.bits) << 16U};
  }
}
__device__ inline float low_of(const Pair<float>& pair) {
  return pair.low;
}
__device__ inline float high_of(const Pair<float>& pair) {
  return pair.high;
}
__device__ inline float low_of(const Pair<BFloat16>& pair) {
  BFloat16 value;
  value.bits = static_cast<std::uint16_t>(pair.bits);
  return widened(value);
}
__device__ inline float high_of(const Pair<BFloat16>& pair) {
  BFloat16 value;
  value.bits = static_cast<std::uint16_t>(pair.bits >> 16U);
  return widened(value);
}

}  // namespace ddp::gpu
