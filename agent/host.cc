#include "agent/host.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "agent/cpu_quota.h"

namespace ddprun {
namespace {

/// Far more processors than any machine has; ends the search for a mask that is large enough.
constexpr int kProcessorsMax = 1 << 20;

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return std::nullopt;
  }
  return text.str();
}

int processors_of_affinity() {
  // The kernel refuses a mask smaller than its own, whose size it does not tell.
  for (int processors = 1024; processors <= kProcessorsMax; processors *= 2) {
    const std::size_t bytes = CPU_ALLOC_SIZE(processors);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
        CPU_ALLOC(processors), [](cpu_set_t* set) { CPU_FREE(set); });
    if (mask && ::sched_getaffinity(0, bytes, mask.get()) == 0) {
      return CPU_COUNT_S(bytes, mask.get());
    }
    if (errno != EINVAL) {
      break;
    }
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "localhost";
}

int usable_cpus() {
  int processors = std::max(processors_of_affinity(), 1);
  if (const auto quota = cpu_quota(read_file); quota && *quota < processors) {
    processors = std::max(static_cast<int>(std::ceil(*quota)), 1);
  }
  return processors;
}

}  // namespace ddprun
