// NcclProcessGroup: operations on CUDA tensors by NCCL; CPU tensors go to the group below it.
//
// Rules that keep it from hanging: the communicator is non-blocking, so no call of NCCL's waits;
// one thread, the caller's, makes all calls of NCCL's, abort included; whoever waits watches the
// device, the communicator's own error and the loss of peers together, with a deadline; and every
// surviving rank aborts.
#pragma once

#include <memory>

#include "worker_runtime/gpu.h"

namespace ddp {

/// Collective over setup.host. Throws StartError, DeviceError or PeerLost.
std::unique_ptr<ProcessGroup> make_nccl_process_group(NcclSetup setup);

}  // namespace ddp
