// Launches of kernels, in the runtime's plain form without <<<>>>: the same source is also compiled
// as C++ and run on the CPU by the tests (tests/standin/cuda).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "worker_runtime/cuda/cuda_check.h"

namespace ddp {

/// Eight warps, enough to hide the latency of kernels that are bound by memory.
inline constexpr unsigned kThreads = 256;
inline constexpr unsigned kWarpSize = 32;

struct Grid {
  dim3 blocks, threads{kThreads, 1, 1};
  std::size_t shared_bytes = 0;
};

inline unsigned blocks_of(std::size_t count, std::size_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

/// One thread for each element; 2^31 - 1 blocks are enough for 2^39 of them.
inline Grid thread_for_each(std::size_t count) {
  return {{blocks_of(count, kThreads), 1, 1}};
}

/// One warp for each row.
inline Grid warp_for_each(std::size_t rows) {
  return {{blocks_of(rows, kThreads / kWarpSize), 1, 1}};
}

/// On the default stream. The current device belongs to the calling thread, and the runtime may
/// have chosen another one. Throws DeviceError: a refused launch shows here, a fault in the kernel
/// in a later call.
template <class... Parameters, class... Arguments>
void launch(int device, const Grid& grid, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  check_cuda(cudaSetDevice(device));
  constexpr std::size_t kAlwaysThere = std::size_t{48} << 10;
  if (grid.shared_bytes > kAlwaysThere) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(grid.shared_bytes)));
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  check_cuda(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

}  // namespace ddp
