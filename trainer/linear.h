// Linear regression: y = x w + b with mean squared error. The maths of one batch, on plain memory:
// the CPU form below, and in linear.cu the same for a GPU. Letters: B samples of this rank's batch,
// N samples in all, F features.
//
// Sums run in a fixed order, so equal inputs give equal bits. Gradients are SUMS over the batch
// (DistributedDataParallel turns them into means over the whole job's batch).
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/host_device.h"

namespace ddp {

/// y of one sample: x (F) times weight (F), plus bias.
DDP_HOST_DEVICE inline float predict(const float* x, const float* weight, float bias,
                                     std::size_t features) {
  float y = bias;
  for (std::size_t f = 0; f < features; ++f) {
    y += x[f] * weight[f];
  }
  return y;
}

/// d/dy of (y - t)^2.
DDP_HOST_DEVICE inline float squared_error_gradient(float y, float target) {
  return 2.0F * (y - target);
}

/// Forward and backward of one batch. All pointers are of one device.
struct LinearPass {
  const float* features = nullptr;      ///< (N, F)
  const float* targets = nullptr;       ///< (N)
  const std::int64_t* index = nullptr;  ///< (B), each in [0, N): the batch's samples
  std::size_t batch_size = 0;           ///< B, may be 0
  std::size_t feature_count = 0;        ///< F
  const float* weight = nullptr;        ///< (F)
  const float* bias = nullptr;          ///< (1)
  float* d_y = nullptr;                 ///< (B) scratch: the loss's gradient by each prediction
  float* d_weight = nullptr;            ///< (F), added to
  float* d_bias = nullptr;              ///< (1), added to
  double* loss = nullptr;               ///< (1), added to: sum of squared errors
};

/// One optimizer step over a tensor: velocity = momentum * velocity + gradient + decay * value;
/// value -= rate * velocity.
struct SgdUpdate {
  float* value = nullptr;
  float* velocity = nullptr;
  const float* gradient = nullptr;
  std::size_t count = 0;
  float rate = 0;
  float momentum = 0;
  float decay = 0;
};

DDP_HOST_DEVICE inline void update_one(const SgdUpdate& update, std::size_t i) {
  const float gradient = update.gradient[i] + update.decay * update.value[i];
  update.velocity[i] = update.momentum * update.velocity[i] + gradient;
  update.value[i] -= update.rate * update.velocity[i];
}

/// Where the arithmetic is done: one table per kind of device, with equal meaning. GPU kernels are
/// queued on the default stream of `device`; errors in them are thrown by whoever copies next.
struct LinearKernels {
  void (*pass)(const LinearPass& pass, int device);
  /// Of `count` tensors at a time: a GPU takes many in one launch.
  void (*update)(const SgdUpdate* updates, std::size_t count, int device);
};

/// The CPU's; `device` is ignored.
const LinearKernels& cpu_kernels();
/// The GPU's, from the runtime's GPU library, which must have been loaded (a CUDA tensor is there).
/// Throws ddp::DeviceError when that library lacks them.
const LinearKernels& gpu_kernels();

/// Its name and type in the GPU library.
inline constexpr char kLinearKernelsName[] = "ddprun_linear_kernels";
using LinearKernelsFactory = const LinearKernels*();

}  // namespace ddp
