// UsableCpus: the processors that this process may use at a time.
#pragma once

#include <optional>

namespace ddprun {

struct UsableCpus {
  int count = 1;  ///< at least 1
  /// The CPU quota of this process's control group, in processors, where `count` is that one
  /// rounded up. None: `count` is that of the affinity mask (sched_getaffinity(2)).
  std::optional<double> quota = {};
};

/// The affinity mask, cut by the CPU quota (cpu_quota.h): schedulers pin jobs by cpusets,
/// containers limit them by quotas.
UsableCpus usable_cpus();

}  // namespace ddprun
