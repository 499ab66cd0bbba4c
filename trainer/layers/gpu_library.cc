#include "trainer/layers/gpu_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "ddp/error.h"

namespace ddp {

/// The runtime has opened it by now, or the training has no GPU.
void* gpu_library_symbol(const char* name) {
  // By the name that the runtime opened it by (worker_runtime/gpu.cc). RTLD_NOLOAD finds that copy,
  // wherever it was installed.
  const char* chosen = std::getenv("DDPRUN_GPU_LIBRARY");
  const std::string file = chosen != nullptr && *chosen != '\0' ? chosen : "libddprun_cuda.so";
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  void* symbol = library == nullptr ? nullptr : ::dlsym(library, name);
  if (symbol == nullptr) {
    throw DeviceError(file + " has no kernels of this trainer; build both together");
  }
  return symbol;
}

}  // namespace ddp
