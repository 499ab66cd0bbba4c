// GPU form of linear.cc, kept as plain: one block per pass, the same order of sums.
#include "trainer/linear.h"

#include "ddp/export.h"
#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/tensor_list.cuh"

namespace ddp {
namespace {

/// One block. Threads share first the samples, then the features; d_y carries from one to the
/// other, and __syncthreads() orders the two only within a block. Each sum is made by one thread in
/// the order of the batch: atomic additions would give other bits in each run.
__global__ void pass_kernel(LinearPass pass) {
  const std::size_t features = pass.feature_count;
  for (std::size_t b = threadIdx.x; b < pass.batch_size; b += blockDim.x) {
    const auto row = static_cast<std::size_t>(pass.index[b]);
    const float y = predict(pass.features + row * features, pass.weight, *pass.bias, features);
    pass.d_y[b] = squared_error_gradient(y, pass.targets[row]);
  }
  __syncthreads();
  for (std::size_t f = threadIdx.x; f < features; f += blockDim.x) {
    for (std::size_t b = 0; b < pass.batch_size; ++b) {
      pass.d_weight[f] +=
          pass.d_y[b] * pass.features[static_cast<std::size_t>(pass.index[b]) * features + f];
    }
  }
  if (threadIdx.x == 0) {
    for (std::size_t b = 0; b < pass.batch_size; ++b) {
      *pass.d_bias += pass.d_y[b];
      const double error = 0.5 * static_cast<double>(pass.d_y[b]);
      *pass.loss += error * error;
    }
  }
}

/// Elements of a block: enough that it is worth looking for its tensor.
constexpr std::size_t kSgdUpdates = std::size_t{8} * kThreads;

__global__ void update_kernel(const __grid_constant__ gpu::TensorList<SgdUpdate> list) {
  const unsigned tensor = list.tensor();
  const SgdUpdate update = list.items[tensor];
  const std::size_t first = (blockIdx.x - list.first_block(tensor)) * kSgdUpdates;
  const std::size_t end = first + kSgdUpdates < update.count ? first + kSgdUpdates : update.count;
  for (std::size_t i = first + threadIdx.x; i < end; i += kThreads) {
    // In registers: all are read before one is written, since the compiler cannot tell that the
    // arrays lie apart, and would wait for memory twice.
    float value = update.value[i], velocity = update.velocity[i];
    const float gradient = update.gradient[i];
    SgdUpdate one = update;
    one.value = &value;
    one.velocity = &velocity;
    one.gradient = &gradient;
    update_one(one, 0);
    update.value[i] = value;
    update.velocity[i] = velocity;
  }
}

void pass_on_gpu(const LinearPass& pass, int device) {
  launch(device, {{1, 1, 1}}, pass_kernel, pass);
}

void update_on_gpu(const SgdUpdate* updates, std::size_t count, int device) {
  gpu::for_each_list(updates, count, kSgdUpdates,
                     [&](const gpu::TensorList<SgdUpdate>& list, unsigned blocks) {
                       launch(device, Grid{{blocks, 1, 1}}, update_kernel, list);
                     });
}

}  // namespace

extern "C" DDP_EXPORT const LinearKernels* ddprun_linear_kernels() {
  static constexpr LinearKernels kKernels{pass_on_gpu, update_on_gpu};
  return &kKernels;
}

}  // namespace ddp
