// WarmEnvironment: the variables a process is given while it waits to become a worker, and how the
// final ones are handed to it (docs/warm-workers.md). Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

/// Descriptors of a waiting process, known to warm_worker.py by these numbers.
inline constexpr int kWarmControlFd = 3;
inline constexpr int kWarmModuleFd = 4;

/// `worker` is the environment of this rank's worker in the attempt that runs. Left out is what the
/// next attempt may have otherwise (rank, sizes, master, attempt, files): a wrong value would be
/// worse than none. Python finds the waiting code by PYTHONPATH; `imports` are --warm-imports.
std::vector<std::string> warm_environment(const std::vector<std::string>& worker,
                                          const std::vector<std::string>& imports);

/// Each entry with a NUL after it.
std::string environment_text(const std::vector<std::string>& environment);

}  // namespace ddprun
