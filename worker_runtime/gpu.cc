#include "worker_runtime/gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "ddp/error.h"

namespace ddp {
namespace {

struct Loaded {
  Gpu* gpu = nullptr;  ///< lives in the library, which stays open to the end of the process
  std::string why_not;
};

/// The folder of the shared object that this very function is in: the plug-in is its neighbour,
/// in the build tree and where it is installed.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  return std::filesystem::path(info.dli_fname).parent_path();
}

void* open_library(const char* file) {
  return ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

/// The library; null with a reason.
void* find_library(std::string& why_not) {
  if (const char* chosen = std::getenv("DDPRUN_GPU_LIBRARY"); chosen != nullptr && *chosen != 0) {
    void* library = open_library(chosen);
    if (library == nullptr) {
      const char* reason = ::dlerror();
      why_not = std::string("DDPRUN_GPU_LIBRARY could not be loaded (") +
                (reason != nullptr ? reason : "unknown reason") + ")";
    }
    return library;
  }
  // First the driver: without one there is no reason to map hundreds of megabytes of libraries.
  if (open_library("libcuda.so.1") == nullptr) {
    why_not = kNoGpuDriver;
    return nullptr;
  }
  // The neighbour first: an installed runtime must not take the plug-in of another version.
  const std::filesystem::path beside = own_folder() / "libddprun_cuda.so";
  void* library = open_library(beside.c_str());
  if (library == nullptr) {
    library = open_library("libddprun_cuda.so");
  }
  if (library == nullptr) {
    // Most often a CUDA library that is missing: dlerror(3) names it.
    const char* reason = ::dlerror();
    why_not = std::string("the GPU part of the runtime could not be loaded (") +
              (reason != nullptr ? reason : "unknown reason") + ")";
  }
  return library;
}

Loaded load() {
  Loaded result;
  void* library = find_library(result.why_not);
  if (library == nullptr) {
    return result;
  }
  auto* factory = reinterpret_cast<GpuFactory*>(::dlsym(library, kGpuFactoryName));
  if (factory == nullptr) {
    result.why_not = "the GPU library is not of this version";
    return result;
  }
  // Null comes with a reason: a driver that is too old, or no device.
  result.gpu = factory(&result.why_not);
  return result;
}

}  // namespace

Gpu* find_gpu(std::string* why_not) {
  // One driver per process: the one thing here that is global by nature.
  // A failure is kept as well: what could not be loaded once is not tried at each tensor.
  static const Loaded loaded = load();
  if (why_not != nullptr) {
    *why_not = loaded.why_not;
  }
  return loaded.gpu;
}

Gpu& require_gpu() {
  std::string why_not;
  Gpu* gpu = find_gpu(&why_not);
  if (gpu == nullptr) {
    throw DeviceError("no GPU can be used: " + why_not);
  }
  return *gpu;
}

}  // namespace ddp
