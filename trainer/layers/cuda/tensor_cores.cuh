// Products on the tensor cores, in the instructions of compute capability 8.0 (PTX ISA: mma,
// ldmatrix, cp.async). Floats go without tensor cores, for comparisons alone. The tests run kernels
// on the CPU with a header of this name in place of this one (tests/standin/cuda).
#pragma once

#include <cuda_bf16.h>

#include "trainer/layers/cuda/fragments.cuh"
#include "trainer/layers/cuda/warpgroup.cuh"

namespace ddp::gpu {

/// Whether four warps multiply together, by the instructions of compute capability 9.0 that no
/// later one has (compute_90a): their tensor cores read the right factor from shared memory.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kWarpgroups = true;
#else
inline constexpr bool kWarpgroups = false;
#endif

/// Both rounded to the nearest.
template <class Real>
__device__ Pair<Real> rounded_pair(float low, float high) {
  if constexpr (sizeof(Real) == sizeof(float)) {
    return {low, high};
  } else {
    Pair<Real> pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair.bits) : "f"(high), "f"(low));
    return pair;
  }
}

/// 2^x to two units in the last place; 0 far below.
__device__ inline float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// sums += left right.
__device__ inline void multiply_add(const Left<BFloat16>& left, const Right<BFloat16>& right,
                                    Sums& sums) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums.of[0]), "+f"(sums.of[1]), "+f"(sums.of[2]), "+f"(sums.of[3])
      : "r"(left.of[0].bits), "r"(left.of[1].bits), "r"(left.of[2].bits), "r"(left.of[3].bits),
        "r"(right.of[0].bits), "r"(right.of[1].bits));
}
/// Not inline, so that kernels of floats compile within a minute.
__device__ __noinline__ inline void multiply_add(const Left<float>& left, const Right<float>& right,
                                                 Sums& sums) {
  constexpr unsigned kAll = 0xffffffffU;
#pragma unroll
  for (unsigned k = 0; k < kTile; ++k) {
    // The lane of the first row and of the first column that holds place k.
    const unsigned holder = k % 8 / 2;
    const unsigned pair = k / 8;
    const auto pick = [&](const Pair<float>& from) { return k % 2 == 0 ? from.low : from.high; };
    const float upper = __shfl_sync(kAll, pick(left.of[2 * pair]), fragment_row() * 4 + holder);
    const float lower = __shfl_sync(kAll, pick(left.of[2 * pair + 1]), fragment_row() * 4 + holder);
    const float first = __shfl_sync(kAll, pick(right.of[pair]), fragment_column() * 4 + holder);
    const float second =
        __shfl_sync(kAll, pick(right.of[pair]), (fragment_column() + 1) * 4 + holder);
    sums.of[0] += upper * first;
    sums.of[1] += upper * second;
    sums.of[2] += lower * first;
    sums.of[3] += lower * second;
  }
}

/// Two right factors side by side from a tile: 16 rows from `row` on, 16 columns from `column` on.
template <int columns>
__device__ void load_rights(const BFloat16* tile, unsigned row, unsigned column,
                            Right<BFloat16> (&to)[2]) {
  const unsigned lane = lane_index();
  const auto place = static_cast<unsigned>(
      __cvta_generic_to_shared(tile + place_in_tile<columns, BFloat16>(
                                          row + lane % kTile, column + lane / kTile * kColumns)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0].of[0].bits), "=r"(to[0].of[1].bits), "=r"(to[1].of[0].bits),
                 "=r"(to[1].of[1].bits)
               : "r"(place)
               : "memory");
}
/// The same of the tile's transpose: the 16 rows are the columns of both.
template <int columns>
__device__ void load_rights_transposed(const BFloat16* tile, unsigned row, unsigned column,
                                       Right<BFloat16> (&to)[2]) {
  const unsigned lane = lane_index();
  const auto place = static_cast<unsigned>(__cvta_generic_to_shared(
      tile + place_in_tile<columns, BFloat16>(row + lane / kTile * kColumns + lane % kColumns,
                                              column + lane / kColumns % 2 * kColumns)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0].of[0].bits), "=r"(to[0].of[1].bits), "=r"(to[1].of[0].bits),
                 "=r"(to[1].of[1].bits)
               : "r"(place)
               : "memory");
}
template <int columns>
__device__ void load_rights(const float* tile, unsigned row, unsigned column,
                            Right<float> (&to)[2]) {
  for (unsigned i = 0; i < 2; ++i) {
    for (unsigned half = 0; half < 2; ++half) {
      const float* place = tile + (row + fragment_column() + half * 8) * columns + column +
                           i * kColumns + fragment_row();
      to[i].of[half] = {place[0], place[columns]};
    }
  }
}
template <int columns>
__device__ void load_rights_transposed(const float* tile, unsigned row, unsigned column,
                                       Right<float> (&to)[2]) {
  for (unsigned i = 0; i < 2; ++i) {
    for (unsigned half = 0; half < 2; ++half) {
      const float* place = tile + (row + i * kColumns + fragment_row()) * columns + column +
                           fragment_column() + half * 8;
      to[i].of[half] = {place[0], place[1]};
    }
  }
}

/// Begins to copy `bytes` bytes from global to shared memory, zeros unless `there`. 16 or 4 bytes;
/// both places are multiples of that. Other threads see them after wait_for_copies() and a barrier.
template <int bytes>
__device__ void begin_copy(void* to, const void* from, bool there) {
  const auto place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :
               : "r"(place), "l"(from), "n"(bytes), "r"(there ? bytes : 0)
               : "memory");
}
/// For all that this thread has begun. Tensor cores that read memory by themselves see it as well.
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" : : : "memory");
  if constexpr (kWarpgroups) {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
  }
}

}  // namespace ddp::gpu
