// Workspace: memory of a device that kernels hand to the next kernel in. Work on the default stream
// runs in order, so all of it shares one piece.
#pragma once

#include <cstddef>

namespace ddp {

/// At least that many bytes, aligned to 256; what is in them is undefined. Valid until the next
/// call for the same device, and for what that call's kernels queue. Grows when it must, which
/// waits for the device. Throws DeviceError.
void* workspace(int device, std::size_t bytes);

}  // namespace ddp
