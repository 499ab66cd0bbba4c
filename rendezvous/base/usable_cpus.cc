#include "rendezvous/base/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <memory>
#include <thread>

#include "rendezvous/base/check.h"
#include "rendezvous/base/cpu_quota.h"
#include "rendezvous/base/file_text.h"

namespace ddprun {
namespace {

/// Far more processors than any machine has; ends the search for a mask that is large enough.
constexpr int kProcessorsMax = 1 << 20;

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

UsableCpus usable_cpus() {
  UsableCpus usable{.count = std::max(processors_of_affinity(), 1)};
  // Rounded up: a quota of 1.5 keeps two processors busy for three quarters of the time.
  if (const auto quota = cpu_quota(read_file); quota && *quota < usable.count) {
    usable = {.count = std::max(static_cast<int>(std::ceil(*quota)), 1), .quota = quota};
  }
  DDP_CHECK(usable.count >= 1, "a process that runs has a processor");
  return usable;
}

}  // namespace ddprun
