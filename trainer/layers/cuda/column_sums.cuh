// Sums over the rows of matrices, column by column, added to what is there: gradients of biases and
// of a layer norm's weights. In two passes with a fixed order, where atomic additions would give
// other bits in each run.
#pragma once

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/workspace.h"

namespace ddp::gpu {

/// One number for each of `count` sums.
template <int count>
struct Terms {
  float of[count];
};
template <int count>
struct Targets {
  float* of[count];
};

inline constexpr unsigned kColumnWarps = kThreads / kWarpSize;

/// A block has a warp's width of columns, and each of its warps every eighth row of the block's
/// share. partial (count, gridDim.y, columns). `matrix(row, column)` gives Terms<count>.
template <int count, class Matrix>
__global__ void column_parts_kernel(Matrix matrix, std::size_t rows, std::size_t columns,
                                    float* partial) {
  auto* sums = shared_memory<float>();  // (count, kColumnWarps, kWarpSize)
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * kWarpSize + lane_index();
  Terms<count> mine = {};
  if (column < columns) {
    const std::size_t stride = static_cast<std::size_t>(gridDim.y) * kColumnWarps;
    for (std::size_t row = blockIdx.y * kColumnWarps + warp_index(); row < rows; row += stride) {
      const Terms<count> terms = matrix(row, column);
      for (int k = 0; k < count; ++k) {
        mine.of[k] += terms.of[k];
      }
    }
  }
  for (int k = 0; k < count; ++k) {
    sums[k * kThreads + threadIdx.x] = mine.of[k];
  }
  __syncthreads();
  if (warp_index() == 0 && column < columns) {
    for (int k = 0; k < count; ++k) {
      float sum = 0;
      for (unsigned warp = 0; warp < kColumnWarps; ++warp) {
        sum += sums[k * kThreads + warp * kWarpSize + lane_index()];
      }
      partial[(static_cast<std::size_t>(k) * gridDim.y + blockIdx.y) * columns + column] = sum;
    }
  }
}

template <int count>
__global__ void column_totals_kernel(const float* partial, unsigned parts, std::size_t columns,
                                     Targets<count> targets) {
  const std::size_t column = global_thread();
  if (column >= columns) {
    return;
  }
  for (int k = 0; k < count; ++k) {
    float sum = 0;
    for (unsigned part = 0; part < parts; ++part) {
      sum += partial[(static_cast<std::size_t>(k) * parts + part) * columns + column];
    }
    targets.of[k][column] += sum;
  }
}

/// Rows at least 1.
template <int count, class Matrix>
void add_column_sums(int device, const Matrix& matrix, std::size_t rows, std::size_t columns,
                     const Targets<count>& targets) {
  // So many that a GPU is filled, and so few that the second pass is short.
  const unsigned parts = std::min(32U, blocks_of(rows, std::size_t{8} * kColumnWarps));
  auto* partial = static_cast<float*>(workspace(device, sizeof(float) * count * parts * columns));
  Grid grid{{blocks_of(columns, kWarpSize), parts, 1}};
  grid.shared_bytes = sizeof(float) * count * kThreads;
  launch(device, grid, column_parts_kernel<count, Matrix>, matrix, rows, columns, partial);
  launch(device, thread_for_each(columns), column_totals_kernel<count>, partial, parts, columns,
         targets);
}

}  // namespace ddp::gpu
