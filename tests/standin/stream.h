// What the stand-ins for a GPU and for NCCL share: a stream's handle, as CUDA has it for both.
#pragma once

#include <functional>

/// The very name that CUDA has for it: cudaStream_t is a pointer to it.
struct CUstream_st {
  virtual ~CUstream_st() = default;
  /// Runs `work` behind what was queued before.
  virtual void queue(std::function<void()> work) = 0;
};
