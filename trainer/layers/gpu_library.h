// What the trainer has in the runtime's GPU library: tables of functions, found by name.
#pragma once

namespace ddp {

/// The runtime must have opened that library (a CUDA tensor is there). Throws ddp::DeviceError when
/// it lacks the name.
void* gpu_library_symbol(const char* name);

}  // namespace ddp
