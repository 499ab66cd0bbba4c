// The functions of libnvidia-ml.so.1 that we call. FAKE_NVML lists its GPUs: "GPU-a,GPU-b";
// an entry "forbidden" is a GPU that the cgroup hides; "no driver" makes the start fail.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::vector<std::string>& gpus() {
  static std::vector<std::string> all;
  return all;
}

constexpr int kNoPermission = 4;
constexpr int kDriverNotLoaded = 9;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* const given = std::getenv("FAKE_NVML");
  if (given == nullptr || std::strcmp(given, "no driver") == 0) {
    return kDriverNotLoaded;
  }
  gpus().clear();
  std::istringstream list(given);
  for (std::string one; std::getline(list, one, ',');) {
    gpus().push_back(one);
  }
  return 0;
}

int nvmlShutdown() {
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(gpus().size());
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &gpus().at(index);
  return gpus().at(index) == "forbidden" ? kNoPermission : 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
  std::strncpy(text, static_cast<std::string*>(device)->c_str(), bytes);
  return 0;
}

// As nvmlUtilization_t and nvmlMemory_t are laid out: a GPU's number of letters is how busy it is.
int nvmlDeviceGetUtilizationRates(void* device, void* utilization) {
  auto* const gpu_and_memory = static_cast<unsigned*>(utilization);
  gpu_and_memory[0] = static_cast<unsigned>(static_cast<std::string*>(device)->size());
  gpu_and_memory[1] = 99;
  return 0;
}

int nvmlDeviceGetMemoryInfo(void*, void* memory) {
  auto* const total_free_used = static_cast<unsigned long long*>(memory);
  total_free_used[0] = 1'000;
  total_free_used[1] = 990;
  total_free_used[2] = 10;
  return 0;
}

const char* nvmlErrorString(int code) {
  return code == kDriverNotLoaded ? "Driver Not Loaded" : "Unknown Error";
}
}
