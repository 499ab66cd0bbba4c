#include "launcher/ctl/gpu_usage.h"

#include <dlfcn.h>

namespace ddprun {

/// Opened at run time: ddpctl also runs where no driver is. Functions that are missing mean a
/// driver from before 2013.
struct GpuUsageReader::Library {
  // As nvml.h has them (nvmlUtilization_t, nvmlMemory_t); it is not part of the CUDA toolkit's run
  // time.
  struct Utilization {
    unsigned gpu = 0;
    unsigned memory = 0;
  };
  struct Memory {
    unsigned long long total = 0;
    unsigned long long free = 0;
    unsigned long long used = 0;
  };
  using Device = void*;
  static constexpr int kSuccess = 0;

  explicit Library(const char* name) : handle(::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
    works = handle != nullptr && load("nvmlInit_v2", init) && load("nvmlShutdown", shutdown) &&
            load("nvmlDeviceGetCount_v2", count_of) &&
            load("nvmlDeviceGetHandleByIndex_v2", handle_of) &&
            load("nvmlDeviceGetUtilizationRates", utilization_of) &&
            load("nvmlDeviceGetMemoryInfo", memory_of) && init() == kSuccess;
  }
  ~Library() {
    if (works) {
      shutdown();
    }
    if (handle != nullptr) {
      ::dlclose(handle);
    }
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  bool load(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    return function != nullptr;
  }

  // NULL until they are loaded; none is called unless all are there and NVML has started.
  void* handle;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count_of)(unsigned*) = nullptr;
  int (*handle_of)(unsigned, Device*) = nullptr;
  // The last arguments are an Utilization* and a Memory*.
  int (*utilization_of)(Device, void*) = nullptr;
  int (*memory_of)(Device, void*) = nullptr;
  bool works = false;
};

GpuUsageReader::GpuUsageReader(const char* library)
    : library_(std::make_unique<Library>(library)) {}

GpuUsageReader::~GpuUsageReader() = default;

/// A GPU that does not tell (it is lost, or another cgroup's) has no line.
std::vector<GpuUsage> GpuUsageReader::read() const {
  std::vector<GpuUsage> all;
  unsigned count = 0;
  if (!library_->works || library_->count_of(&count) != Library::kSuccess) {
    return all;
  }
  for (unsigned i = 0; i < count; ++i) {
    Library::Device device = nullptr;
    Library::Utilization busy;
    Library::Memory memory;
    if (library_->handle_of(i, &device) == Library::kSuccess &&
        library_->utilization_of(device, &busy) == Library::kSuccess &&
        library_->memory_of(device, &memory) == Library::kSuccess) {
      all.push_back({i, busy.gpu, memory.used, memory.total});
    }
  }
  return all;
}

}  // namespace ddprun
