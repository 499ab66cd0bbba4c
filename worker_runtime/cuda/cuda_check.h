// check_cuda: a CUDA error as the exception that the runtime's users know.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "ddp/error.h"

namespace ddp {

inline void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) {
    throw DeviceError(std::string("CUDA: ") + cudaGetErrorString(error) + " (" +
                      cudaGetErrorName(error) + ")");
  }
}

}  // namespace ddp
