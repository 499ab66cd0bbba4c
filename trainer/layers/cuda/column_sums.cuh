// Sums over the rows of matrices, column by column, added to what is there: gradients of biases and
// of a layer norm's weights. In two passes with a fixed order, where atomic additions would give
// other bits in each run: first the rows in parts, then the parts.
#pragma once

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/cuda/workspace.h"

namespace ddp::gpu {

/// One number of `width` neighbouring columns for each of `count` sums.
template <int count, int width>
struct Terms {
  float of[count][width];
};
template <int count>
struct Targets {
  float* of[count];
};

/// Sixteen threads side by side read 256 bytes of a row, and a block sixteen rows at a time: so
/// narrow that a matrix of a few hundred columns still has many blocks with few parts.
inline constexpr unsigned kColumnThreads = 16;
inline constexpr unsigned kColumnRows = kThreads / kColumnThreads;
/// Four for each multiprocessor of an H100, which keep enough reads on their way.
inline constexpr unsigned kColumnBlocks = 4 * 132;
/// Fewer in a part would not be worth its place in the second pass.
inline constexpr std::size_t kPartRows = std::size_t{4} * kColumnRows;

/// Block (x, y) sums up its columns over the rows of part y. `matrix(row, column)` gives
/// Terms<count, width> for the columns from `column` on; `columns` is a multiple of width. Sum k of
/// a part goes to row y of targets.of[k] (gridDim.y, columns), and is added to it where `add` is.
template <int count, int width, class Matrix>
__global__ void column_sums_kernel(Matrix matrix, std::size_t rows, std::size_t columns,
                                   Targets<count> targets, bool add) {
  constexpr unsigned kColumns = kColumnThreads * width;  // of a block
  auto* sums = shared_memory<float>();                   // (count, kColumnRows, kColumns)
  const unsigned side = threadIdx.x % kColumnThreads;
  const unsigned first_row = threadIdx.x / kColumnThreads;
  const std::size_t first_column = static_cast<std::size_t>(blockIdx.x) * kColumns;
  const std::size_t mine = first_column + static_cast<std::size_t>(side) * width;
  Terms<count, width> total = {};
  if (mine < columns) {
    const std::size_t stride = static_cast<std::size_t>(gridDim.y) * kColumnRows;
    // Several rows are read before the first is added: else each would be waited for by itself.
    constexpr unsigned kAtOnce = 4 / count;
    for (std::size_t row = blockIdx.y * kColumnRows + first_row; row < rows;
         row += kAtOnce * stride) {
      Terms<count, width> terms[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        terms[i] = matrix(row + i * stride < rows ? row + i * stride : row, mine);
      }
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const bool is_row = row + i * stride < rows;
        for (int k = 0; k < count; ++k) {
          for (int j = 0; j < width; ++j) {
            total.of[k][j] += is_row ? terms[i].of[k][j] : 0.0F;
          }
        }
      }
    }
  }
  for (int k = 0; k < count; ++k) {
    for (int j = 0; j < width; ++j) {
      sums[(k * kColumnRows + first_row) * kColumns + side * width + j] = total.of[k][j];
    }
  }
  __syncthreads();
  const std::size_t column = first_column + threadIdx.x;
  if (threadIdx.x < kColumns && column < columns) {
    for (int k = 0; k < count; ++k) {
      float sum = 0;
      for (unsigned row = 0; row < kColumnRows; ++row) {
        sum += sums[(k * kColumnRows + row) * kColumns + threadIdx.x];
      }
      float& target = targets.of[k][blockIdx.y * columns + column];
      target = add ? target + sum : sum;
    }
  }
}

/// What the first pass has left, as the matrices of the second: row p is part p.
template <int count>
struct PartTerms {
  Targets<count> parts;  ///< each (parts, columns)
  std::size_t columns;
  __device__ Terms<count, 1> operator()(std::size_t part, std::size_t column) const {
    Terms<count, 1> terms;
    for (int k = 0; k < count; ++k) {
      terms.of[k][0] = parts.of[k][part * columns + column];
    }
    return terms;
  }
};

template <int count, int width, class Matrix>
void queue_column_sums(int device, const Matrix& matrix, std::size_t rows, std::size_t columns,
                       unsigned parts, const Targets<count>& targets, bool add) {
  static_assert(kColumnThreads * width <= kThreads);  // a thread for each column's last sum
  Grid grid{{blocks_of(columns, kColumnThreads * width), parts, 1}};
  grid.shared_bytes = sizeof(float) * count * kThreads * width;
  launch(device, grid, column_sums_kernel<count, width, Matrix>, matrix, rows, columns, targets,
         add);
}

/// Memory for the parts of some sums, until the next call that wants a workspace.
template <int count>
PartTerms<count> parts_in_workspace(int device, unsigned parts, std::size_t columns) {
  auto* memory = static_cast<float*>(workspace(device, sizeof(float) * count * parts * columns));
  PartTerms<count> partial{{}, columns};
  for (int k = 0; k < count; ++k) {
    partial.parts.of[k] = memory + static_cast<std::size_t>(k) * parts * columns;
  }
  return partial;
}

/// The second pass.
template <int count>
void add_parts(int device, const PartTerms<count>& partial, unsigned parts,
               const Targets<count>& targets) {
  queue_column_sums<count, 1>(device, partial, parts, partial.columns, 1, targets, true);
}

/// Both passes. Rows at least 1; `columns` a multiple of width.
template <int count, int width, class Matrix>
void add_column_sums(int device, const Matrix& matrix, std::size_t rows, std::size_t columns,
                     const Targets<count>& targets) {
  const unsigned side_by_side = blocks_of(columns, kColumnThreads * width);
  const unsigned parts =
      std::min(std::max(1U, kColumnBlocks / side_by_side), blocks_of(rows, kPartRows));
  const PartTerms<count> partial = parts_in_workspace<count>(device, parts, columns);
  queue_column_sums<count, width>(device, matrix, rows, columns, parts, partial.parts, false);
  add_parts(device, partial, parts, targets);
}

}  // namespace ddp::gpu
