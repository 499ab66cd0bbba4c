#include "trainer/layers/adamw_update.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/workspace.h"

namespace ddp::gpu {
namespace {

/// The arithmetic is the CPU's own (adamw_update.h): CPU and GPU ranks of one job stay in step.
__global__ void adamw_kernel(AdamWUpdate update) {
  const std::size_t i = global_thread();
  if (i < update.count) {
    adamw_moments(update, i);
    adamw_value(update, i, sqrtf(update.square[i]));
  }
}

/// Blocks of the first pass; their number is part of the order of adding. One for each 64 elements
/// of a thread, until there are enough for every GPU.
constexpr unsigned kParts = 1024;
constexpr std::size_t kElements = 64;

/// partial (gridDim): each thread adds its own elements, all threads of the grid apart, in doubles.
__global__ void squares_kernel(const float* values, std::size_t count, double* partial) {
  double sum = 0;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = global_thread(); i < count; i += stride) {
    const double value = values[i];
    sum += value * value;
  }
  sum = block_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
  }
}

/// One block, so that the parts are added in one order: equal gradients have equal norms on every
/// rank, and all ranks clip them by the same factor.
__global__ void sum_kernel(const double* partial, unsigned count, double* sum) {
  double mine = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    mine += partial[i];
  }
  mine = block_sum(mine, shared_memory<double>());
  if (threadIdx.x == 0) {
    *sum = mine;
  }
}

}  // namespace

void adamw_update(const AdamWUpdate& update, int device) {
  if (update.count > 0) {  // a grid without blocks is an error of the launch
    launch(device, thread_for_each(update.count), adamw_kernel, update);
  }
}

void sum_of_squares(const float* values, std::size_t count, double* sum, int device) {
  const unsigned parts = std::max(1U, std::min(kParts, blocks_of(count, kElements * kThreads)));
  auto* partial = static_cast<double*>(workspace(device, parts * sizeof(double)));
  Grid grid{{parts, 1, 1}};
  grid.shared_bytes = kThreads / kWarpSize * sizeof(double);
  launch(device, grid, squares_kernel, values, count, partial);
  grid.blocks = {1, 1, 1};
  launch(device, grid, sum_kernel, partial, parts, sum);
}

}  // namespace ddp::gpu
