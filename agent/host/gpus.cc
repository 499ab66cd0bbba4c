#include "agent/host/gpus.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/host/visible_devices.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// One place, and what it had: the UUID of each GPU, "" where it does not tell.
struct Found {
  std::vector<std::string> uuids;
  std::string how;
};

// nvml.h is not part of the CUDA toolkit's run time; these five have been the same since 2013.
using NvmlCall = int (*)();
using NvmlDevice = void*;
using NvmlCount = int (*)(unsigned*);
using NvmlHandle = int (*)(unsigned, NvmlDevice*);
using NvmlUuid = int (*)(NvmlDevice, char*, unsigned);
using NvmlErrorText = const char* (*)(int);
constexpr int kNvmlSuccess = 0;
constexpr std::size_t kNvmlUuidBytes = 96;

/// Closed again: the library and what it maps have no business in a process that lives for days.
using Library = std::unique_ptr<void, int (*)(void*)>;

template <class Function>
bool load(const Library& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library.get(), name));
  return function != nullptr;
}

Found ask_nvml(const std::string& path) {
  // Opened at run time: an agent also runs where no driver is. NVML creates no CUDA context, which
  // would take memory of each GPU.
  const Library library(::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL), ::dlclose);
  if (!library) {
    return {{}, "NVML (" + path + ") is not installed"};
  }
  NvmlCall init = nullptr;
  NvmlCall shutdown = nullptr;
  NvmlCount count_of = nullptr;
  NvmlHandle handle_of = nullptr;
  NvmlUuid uuid_of = nullptr;
  if (!load(library, "nvmlInit_v2", init) || !load(library, "nvmlShutdown", shutdown) ||
      !load(library, "nvmlDeviceGetCount_v2", count_of) ||
      !load(library, "nvmlDeviceGetHandleByIndex_v2", handle_of) ||
      !load(library, "nvmlDeviceGetUUID", uuid_of)) {
    return {{}, "NVML (" + path + ") lacks the functions of every driver since 2013"};
  }
  // The library may be there without the kernel's module, as in a container without GPUs.
  if (const int error = init(); error != kNvmlSuccess) {
    NvmlErrorText text = nullptr;
    const char* const reason = load(library, "nvmlErrorString", text) ? text(error) : nullptr;
    return {{},
            "NVML could not start (" +
                (reason != nullptr ? std::string(reason) : "code " + std::to_string(error)) + ")"};
  }
  Found found;
  unsigned count = 0;
  const int counted = count_of(&count);
  for (unsigned i = 0; counted == kNvmlSuccess && i < count; ++i) {
    NvmlDevice device = nullptr;
    // The count includes GPUs that our cgroup forbids; CUDA will not show those to workers.
    if (handle_of(i, &device) != kNvmlSuccess) {
      continue;
    }
    std::array<char, kNvmlUuidBytes> uuid{};
    const bool named = uuid_of(device, uuid.data(), uuid.size()) == kNvmlSuccess;
    uuid.back() = '\0';
    found.uuids.emplace_back(named ? uuid.data() : "");
  }
  // NVML counts its users in a process: each init needs its shutdown.
  shutdown();
  found.how = counted == kNvmlSuccess ? fmt::format("NVML found {} GPUs", found.uuids.size())
                                      : fmt::format("NVML could not count (code {})", counted);
  return found;
}

/// "GPU UUID: \t GPU-5a7c..." of the driver's information file.
std::string uuid_in(const fs::path& information) {
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    const auto at = line.find("GPU-");
    if (line.starts_with("GPU UUID") && at != std::string::npos) {
      return line.substr(at, line.find_last_not_of(" \t\r") + 1 - at);
    }
  }
  return "";
}

/// In name order, which is PCI order in /proc/driver/nvidia/gpus; empty when unreadable.
std::vector<fs::path> sorted_entries(const std::string& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// For containers that hide NVML: the driver's own files may still be visible.
Found ask_driver(const std::string& directory) {
  Found found;
  for (const fs::path& gpu : sorted_entries(directory)) {
    found.uuids.push_back(uuid_in(gpu / "information"));
  }
  found.how = found.uuids.empty() ? "there is nothing in " + directory
                                  : fmt::format("{} has {} GPUs", directory, found.uuids.size());
  return found;
}

/// The last resort: device files show how many GPUs may be opened, and nothing else.
Found ask_dev(const std::string& directory) {
  constexpr std::string_view kPrefix = "nvidia";
  Found found;
  for (const fs::path& entry : sorted_entries(directory)) {
    const std::string name = entry.filename();
    const bool numbered = name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
                          name.find_first_not_of("0123456789", kPrefix.size()) == name.npos;
    if (numbered) {
      found.uuids.emplace_back();
    }
  }
  found.how = found.uuids.empty()
                  ? "there is no " + directory + "/nvidia<number>"
                  : fmt::format("{} has {} devices nvidia<number>", directory, found.uuids.size());
  return found;
}

Found find_gpus(const GpuPlaces& places) {
  Found found = ask_nvml(places.nvml);
  // All answers go into the text: a person who expects GPUs sees which place has what.
  std::string tried = found.how;
  if (found.uuids.empty()) {
    found = ask_driver(places.proc_gpus);
    tried += ", " + found.how;
  }
  if (found.uuids.empty()) {
    found = ask_dev(places.dev);
    tried += ", " + found.how;
  }
  return {std::move(found.uuids), std::move(tried)};
}

}  // namespace

GpuCount count_gpus(const char* cuda_visible_devices, const GpuPlaces& places) {
  const Found found = find_gpus(places);
  const auto all = static_cast<int>(found.uuids.size());
  if (cuda_visible_devices == nullptr || all == 0) {
    return {all, found.how};
  }
  // The same rules as the driver's, so a worker never gets a local rank without a GPU.
  const VisibleDevices visible = visible_devices(cuda_visible_devices, found.uuids);
  std::string how = fmt::format("{}; CUDA_VISIBLE_DEVICES='{}' leaves {}", found.how,
                                cuda_visible_devices, visible.count);
  if (!visible.rejected.empty()) {
    how += " ('" + visible.rejected + "' is not a GPU that can be taken; it ends the list)";
  }
  return {visible.count, how};
}

}  // namespace ddprun
