// Products that the four warps of a warpgroup make together: 16 rows each, and one right factor,
// which the tensor cores read from a tile in shared memory (PTX ISA, "Asynchronous Warpgroup Level
// Matrix Multiply-Accumulate"). Compute capability 9.0 alone.
#pragma once

#include "trainer/layers/cuda/fragments.cuh"

namespace ddp::gpu {

/// A tile (rows, 64) from `row` on, a multiple of 8, as the matrix descriptor has it: eight rows of
/// 128 bytes, 1024 bytes from one such group to the next, swizzled over 128 bytes.
__device__ inline std::uint64_t describe_tile(const BFloat16* tile, unsigned row) {
  constexpr std::uint64_t kGroupBytes = 1024;
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62U;
  const auto place = static_cast<std::uint64_t>(__cvta_generic_to_shared(tile)) + row * 128;
  return (place & 0x3ffffU) >> 4U | std::uint64_t{1} << 16U | kGroupBytes >> 4U << 32U |
         kSwizzle128;
}

// The operands that each product below adds to.
#define DDP_SUMS_AT(n) \
  "+f"(sums[n].of[0]), "+f"(sums[n].of[1]), "+f"(sums[n].of[2]), "+f"(sums[n].of[3])
#define DDP_SUMS_OF_32 DDP_SUMS_AT(0), DDP_SUMS_AT(1), DDP_SUMS_AT(2), DDP_SUMS_AT(3)
#define DDP_SUMS_OF_64 \
  DDP_SUMS_OF_32, DDP_SUMS_AT(4), DDP_SUMS_AT(5), DDP_SUMS_AT(6), DDP_SUMS_AT(7)

/// sums (16 of the group's 64 rows, columns) += left right, or, unless `add`, become it.
/// `transposed`: the right factor is the transpose of what lies in the tile.
template <bool transposed, bool add>
__device__ void queue_product(const Left<BFloat16>& left, std::uint64_t right,
                              Sums (&sums)[64 / kColumns]) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %38, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, %37;\n"
      "}\n"
      : DDP_SUMS_OF_64
      : "r"(left.of[0].bits), "r"(left.of[1].bits), "r"(left.of[2].bits), "r"(left.of[3].bits),
        "l"(right), "n"(transposed ? 0 : 1), "n"(add ? 1 : 0));
}
template <bool transposed, bool add>
__device__ void queue_product(const Left<BFloat16>& left, std::uint64_t right,
                              Sums (&sums)[32 / kColumns]) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %22, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, add, 1, 1, %21;\n"
      "}\n"
      : DDP_SUMS_OF_32
      : "r"(left.of[0].bits), "r"(left.of[1].bits), "r"(left.of[2].bits), "r"(left.of[3].bits),
        "l"(right), "n"(transposed ? 0 : 1), "n"(add ? 1 : 0));
}

/// The same, with left factors of the whole group from a tile as well, and the right factor
/// transposed.
template <bool add>
__device__ void queue_product(std::uint64_t left, std::uint64_t right,
                              Sums (&sums)[64 / kColumns]) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;\n"
      "}\n"
      : DDP_SUMS_OF_64
      : "l"(left), "l"(right), "n"(add ? 1 : 0));
}
template <bool add>
__device__ void queue_product(std::uint64_t left, std::uint64_t right,
                              Sums (&sums)[32 / kColumns]) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, add, 1, 1, 0, 0;\n"
      "}\n"
      : DDP_SUMS_OF_32
      : "l"(left), "l"(right), "n"(add ? 1 : 0));
}

#undef DDP_SUMS_OF_64
#undef DDP_SUMS_OF_32
#undef DDP_SUMS_AT

/// The compiler leaves sums where they are while products are under way.
template <unsigned count>
__device__ void hold(Sums (&sums)[count]) {
#pragma unroll
  for (unsigned n = 0; n < count; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      asm volatile("" : "+f"(sums[n].of[i]) : : "memory");
    }
  }
}

/// Before the first product that is queued, with all sums that products will add to; and after the
/// last, for all of them are queued together: then the sums are there.
template <unsigned... counts>
__device__ void begin_group(Sums (&... sums)[counts]) {
  (hold(sums), ...);
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
template <unsigned... counts>
__device__ void end_group(Sums (&... sums)[counts]) {
  asm volatile(
      "wgmma.commit_group.sync.aligned;\n"
      "wgmma.wait_group.sync.aligned 0;\n"
      :
      :
      : "memory");
  (hold(sums), ...);
}

/// sums (16, columns) += left (16, depth) right, or, unless `add`, become it. The right factor is
/// `depth` rows of a tile from `row` on; or, transposed, `columns` of its rows.
template <int depth, int columns, bool transposed, bool add>
__device__ void queue_by_group(const Left<BFloat16> (&left)[depth / kTile], const BFloat16* tile,
                               unsigned row, Sums (&sums)[columns / kColumns]) {
#pragma unroll
  for (unsigned k = 0; k < depth / kTile; ++k) {
    // 16 columns further along each row, or 16 rows below. Descriptors count 16 bytes.
    const std::uint64_t right =
        transposed ? describe_tile(tile, row) + k * 2 : describe_tile(tile, row + k * kTile);
    if (add || k > 0) {
      queue_product<transposed, true>(left[k], right, sums);
    } else {
      queue_product<transposed, false>(left[k], right, sums);
    }
  }
}

/// sums (16 of the group's 64 rows, columns) = left right^T, of all rows of the left tile and
/// `columns` rows of the right one from `row` on.
template <int depth, int columns>
__device__ void queue_tiles(const BFloat16* left, const BFloat16* right, unsigned row,
                            Sums (&sums)[columns / kColumns]) {
#pragma unroll
  for (unsigned k = 0; k < depth / kTile; ++k) {
    const std::uint64_t mine = describe_tile(left, 0) + k * 2;
    const std::uint64_t other = describe_tile(right, row) + k * 2;
    if (k > 0) {
      queue_product<true>(mine, other, sums);
    } else {
      queue_product<false>(mine, other, sums);
    }
  }
}

}  // namespace ddp::gpu
