// Gpus: how many GPUs workers will see, found without creating a CUDA context in this process.
#pragma once

#include <string>

#include "rendezvous/base/result.h"

namespace ddprun {

/// Asks NVML (libnvidia-ml.so.1 by dlopen), then /proc/driver/nvidia/gpus, then /dev/nvidia<n>; an
/// entry list in CUDA_VISIBLE_DEVICES (indices, GPU-/MIG- names; an invalid entry hides it and all
/// after it, as CUDA does; empty or -1: none) limits it. 0 is an answer, not an error.
struct GpuCount {
  int count = 0;
  /// What was looked for and found, as a clause for an error message.
  std::string how;
};
GpuCount count_gpus(const char* cuda_visible_devices);

}  // namespace ddprun
