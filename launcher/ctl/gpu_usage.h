// GpuUsage: how busy the GPUs of this host are, by NVML, which the driver brings along. No CUDA
// context is made.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace ddprun {

struct GpuUsage {
  unsigned index = 0;
  unsigned busy_percent = 0;  ///< of the driver's last sampling period
  std::uint64_t used_bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// Loads NVML once. Without it, or without a GPU, there is nothing to show.
class GpuUsageReader {
 public:
  explicit GpuUsageReader(const char* library = "libnvidia-ml.so.1");
  ~GpuUsageReader();
  GpuUsageReader(const GpuUsageReader&) = delete;
  GpuUsageReader& operator=(const GpuUsageReader&) = delete;
  [[nodiscard]] std::vector<GpuUsage> read() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace ddprun
