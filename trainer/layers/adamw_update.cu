#include "trainer/layers/adamw_update.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/tensor_list.cuh"
#include "trainer/layers/cuda/workspace.h"

namespace ddp::gpu {
namespace {

/// Elements of a block: enough that it is worth looking for its tensor.
constexpr std::size_t kUpdates = std::size_t{16} * kThreads;
/// Of a block that adds up; part of the order of adding.
constexpr std::size_t kSquares = std::size_t{128} * kThreads;

/// The arithmetic is the CPU's own (adamw_update.h): CPU and GPU ranks of one job stay in step.
__global__ void adamw_kernel(const __grid_constant__ TensorList<AdamWUpdate> list) {
  const unsigned tensor = list.tensor();
  const AdamWUpdate update = list.items[tensor];
  const std::size_t first = (blockIdx.x - list.first_block(tensor)) * kUpdates;
  const std::size_t end = first + kUpdates < update.count ? first + kUpdates : update.count;
  for (std::size_t i = first + threadIdx.x; i < end; i += kThreads) {
    // In registers: all four are read before one is written, since the compiler cannot tell that
    // the arrays lie apart, and would wait for memory three times.
    float value = update.value[i], gradient = update.gradient[i];
    float mean = update.mean[i], square = update.square[i];
    AdamWUpdate one = update;
    one.value = &value;
    one.gradient = &gradient;
    one.mean = &mean;
    one.square = &square;
    adamw_moments(one, 0);
    adamw_value(one, 0, sqrtf(square));
    update.value[i] = value;
    update.mean[i] = mean;
    update.square[i] = square;
  }
}

/// partial (gridDim): each thread adds its own elements, all threads of the block apart, in
/// doubles.
__global__ void squares_kernel(const __grid_constant__ TensorList<SquareSum> list,
                               double* partial) {
  const unsigned tensor = list.tensor();
  const SquareSum pass = list.items[tensor];
  const std::size_t first = (blockIdx.x - list.first_block(tensor)) * kSquares;
  const std::size_t end = first + kSquares < pass.count ? first + kSquares : pass.count;
  double sum = 0;
  // Several are read before the first is added: else each would be waited for by itself.
  constexpr unsigned kAtOnce = 8;
  for (std::size_t i = first + threadIdx.x; i < end; i += kAtOnce * kThreads) {
    float values[kAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kAtOnce; ++k) {
      values[k] = pass.values[i + k * kThreads < end ? i + k * kThreads : i];
    }
#pragma unroll
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const double value = i + k * kThreads < end ? values[k] : 0.0F;
      sum += value * value;
    }
  }
  sum = block_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
  }
}

/// One block for each tensor, so that its parts are added in one order: equal gradients have equal
/// norms on every rank, and all ranks clip them by the same factor.
__global__ void sum_kernel(const __grid_constant__ TensorList<SquareSum> list,
                           const double* partial) {
  double mine = 0;
  const unsigned end = list.end_block[blockIdx.x];
  for (unsigned i = list.first_block(blockIdx.x) + threadIdx.x; i < end; i += kThreads) {
    mine += partial[i];
  }
  mine = block_sum(mine, shared_memory<double>());
  if (threadIdx.x == 0) {
    *list.items[blockIdx.x].sum = mine;
  }
}

}  // namespace

void adamw_update(const AdamWUpdate* updates, std::size_t count, int device) {
  for_each_list(updates, count, kUpdates,
                [&](const TensorList<AdamWUpdate>& list, unsigned blocks) {
                  launch(device, Grid{{blocks, 1, 1}}, adamw_kernel, list);
                });
}

void sums_of_squares(const SquareSum* sums, std::size_t count, int device) {
  for_each_list(sums, count, kSquares, [&](const TensorList<SquareSum>& list, unsigned blocks) {
    auto* partial = static_cast<double*>(workspace(device, blocks * sizeof(double)));
    Grid grid{{blocks, 1, 1}};
    grid.shared_bytes = kThreads / kWarpSize * sizeof(double);
    launch(device, grid, squares_kernel, list, partial);
    grid.blocks = {list.tensors, 1, 1};
    launch(device, grid, sum_kernel, list, partial);
  });
}

}  // namespace ddp::gpu
