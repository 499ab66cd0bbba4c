// In place of CUDA's header of this name: as much of the runtime as the layers' kernels use, for
// kernels that are compiled as C++ and run on the CPU (block_runner.h). Device memory is host
// memory of exactly the size asked for, so that an address sanitizer sees who leaves it.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tests/standin/cuda/block_runner.h"

#define __global__                                        // allowed: CUDA's own word
#define __device__                                        // allowed: CUDA's own word
#define __host__                                          // allowed: CUDA's own word
#define __shared__                                        // allowed: CUDA's own word
#define __align__(bytes) __attribute__((aligned(bytes)))  // allowed: CUDA's own word
#define __launch_bounds__(...)                            // allowed: CUDA's own word
#define __grid_constant__                                 // allowed: CUDA's own word
#define __forceinline__ inline                            // allowed: CUDA's own word

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
};
enum cudaDeviceAttr : int {
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
};
enum cudaFuncAttribute : int { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
using cudaStream_t = struct CUstream_st*;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  void* attrs = nullptr;
  unsigned numAttrs = 0;
};

inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidValue ? "invalid argument" : "out of memory";
}
inline const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorInvalidValue ? "cudaErrorInvalidValue" : "cudaErrorMemoryAllocation";
}
inline cudaError_t cudaSetDevice(int /*device*/) {
  return cudaSuccess;
}
/// Of a card without the instructions of warpgroups, which nothing here could run, and with as much
/// shared memory as an H100.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int /*device*/) {
  *value = which == cudaDevAttrComputeCapabilityMajor ? 8 : 228 << 10;
  return cudaSuccess;
}
/// Kernels are done when their launch returns.
inline cudaError_t cudaDeviceSynchronize() {
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

/// How much a kernel may ask for at its launch.
template <class... Parameters>
std::size_t& shared_limit(void (*kernel)(Parameters...)) {
  // One kernel of each signature at a time is enough: a limit belongs to its newest caller.
  static std::size_t limit = ddp_standin::kSharedDefault;
  static void (*owner)(Parameters...) = nullptr;
  if (owner != kernel) {
    owner = kernel;
    limit = ddp_standin::kSharedDefault;
  }
  return limit;
}
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute, int bytes) {
  if (static_cast<std::size_t>(bytes) > ddp_standin::kSharedMax) {
    return cudaErrorInvalidValue;
  }
  shared_limit(kernel) = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  if (config->dynamicSmemBytes > shared_limit(kernel)) {
    return cudaErrorInvalidValue;
  }
  const auto index = [](const dim3& size) { return ddp_standin::Index{size.x, size.y, size.z}; };
  ddp_standin::run_grid(index(config->gridDim), index(config->blockDim), config->dynamicSmemBytes,
                        [&] { kernel(arguments...); });
  return cudaSuccess;
}

// Built-in variables of a kernel.
inline const ddp_standin::Index& threadIdx = ddp_standin::this_thread();
inline const ddp_standin::Index& blockIdx = ddp_standin::this_block();
inline const ddp_standin::Index& blockDim = ddp_standin::block_size();
inline const ddp_standin::Index& gridDim = ddp_standin::grid_size();

inline void __syncthreads() {
  ddp_standin::await_block();
}
inline int __syncthreads_or(int any) {
  return ddp_standin::await_block(any != 0) ? 1 : 0;
}
inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
inline void __syncwarp() {
  ddp_standin::exchange(0, 0);
}
/// What lane `from` has.
template <class T>
T __shfl_sync(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  if (mask != 0xffffffffU) {
    std::abort();  // the kernels here shuffle whole warps
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = ddp_standin::exchange(bits, from);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync(mask, value, threadIdx.x % ddp_standin::kWarp ^ static_cast<unsigned>(lanes));
}
