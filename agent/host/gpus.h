// Gpus: how many GPUs workers will see, found without creating a CUDA context in this process.
#pragma once

#include <string>

#include "rendezvous/base/result.h"

namespace ddprun {

struct GpuCount {
  int count = 0;
  /// What was looked for and found, as a clause for an error message.
  std::string how;
};

/// Where the driver shows its GPUs; other places are for tests.
struct GpuPlaces {
  std::string nvml = "libnvidia-ml.so.1";
  std::string proc_gpus = "/proc/driver/nvidia/gpus";
  std::string dev = "/dev";
};

/// Asks NVML (by dlopen), then /proc/driver/nvidia/gpus, then /dev/nvidia<n>; the first that knows
/// a GPU is believed. `cuda_visible_devices` (nullptr: not set) limits it, as in visible_devices.h:
/// an invalid entry hides itself and all after it; empty or -1: none. 0 is an answer, not an error.
GpuCount count_gpus(const char* cuda_visible_devices, const GpuPlaces& places = {});

}  // namespace ddprun
