// NcclProcessGroup: operations on CUDA tensors by NCCL; CPU tensors go to the group below it.
//
// Rules that keep it from hanging: NcclCommunicator's; whoever waits watches the device, the
// communicator's own error and the loss of peers together, with a deadline; every surviving rank
// aborts; and where an abort does not return, the GPU is given up, so that the process can end.
#pragma once

#include <memory>

#include "worker_runtime/gpu.h"

namespace ddp {

/// Collective over setup.host. `gpu` outlives the group. Throws StartError, DeviceError or
/// PeerLost.
std::unique_ptr<ProcessGroup> make_nccl_process_group(Gpu& gpu, NcclSetup setup);

}  // namespace ddp
