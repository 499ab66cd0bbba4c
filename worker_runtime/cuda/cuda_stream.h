// The GpuStream of a real device, and whether the devices of this process still answer.
#pragma once

#include <atomic>
#include <memory>

#include "worker_runtime/gpu.h"

namespace ddp {

/// Set once by Gpu::give_up(). From then on nothing is freed: cudaFree waits for the device.
/// Global by nature, like the driver: deleters of tensors run where no Gpu is at hand.
extern std::atomic<bool> devices_given_up;

/// Throws DeviceError.
std::unique_ptr<GpuStream> make_cuda_stream(int device);

}  // namespace ddp
