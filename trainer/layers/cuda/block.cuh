// What the threads of a block do together: sums over a warp or a block, and their shared memory.
// Sums run in an order that depends on the number of threads alone.
#pragma once

#include <cuda_runtime.h>

#include "trainer/layers/cuda/launch.cuh"

namespace ddp {

/// The block's dynamic shared memory, the only one that kernels here use. Not in an unnamed
/// namespace, where each array would be another one.
template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  return reinterpret_cast<T*>(shared_bytes);
}

__device__ inline std::size_t global_thread() {
  // In 64 bits: the product of two unsigned numbers wraps at 4 Gi elements.
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline unsigned lane_index() {
  return threadIdx.x % kWarpSize;
}
__device__ inline unsigned warp_index() {
  return threadIdx.x / kWarpSize;
}
/// The row of this warp, where each has one (warp_for_each).
__device__ inline std::size_t warp_row() {
  return static_cast<std::size_t>(blockIdx.x) * (blockDim.x / kWarpSize) + warp_index();
}

template <class T>
__device__ T warp_sum(T value) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, lanes);
  }
  return value;
}

__device__ inline float warp_max(float value) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    const float other = __shfl_xor_sync(0xffffffffU, value, lanes);
    value = other > value ? other : value;
  }
  return value;
}

/// `scratch` is shared memory for one value of each warp; every thread gets the sum.
template <class T>
__device__ T block_sum(T value, T* scratch) {
  value = warp_sum(value);
  if (lane_index() == 0) {
    scratch[warp_index()] = value;
  }
  __syncthreads();
  const unsigned warps = blockDim.x / kWarpSize;
  value = warp_sum(lane_index() < warps ? scratch[lane_index()] : T{0});
  __syncthreads();  // the next sum may use the same scratch memory
  return value;
}

__device__ inline float block_max(float value, float* scratch) {
  value = warp_max(value);
  if (lane_index() == 0) {
    scratch[warp_index()] = value;
  }
  __syncthreads();
  const unsigned warps = blockDim.x / kWarpSize;
  value = warp_max(scratch[lane_index() < warps ? lane_index() : 0]);
  __syncthreads();
  return value;
}

}  // namespace ddp
