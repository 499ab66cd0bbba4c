// ProcessUsage: what the kernel counts of a worker that tells nothing by itself.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun {

/// Processor time that the process and all below it have used, those included that have been
/// reaped. In the kernel's ticks, 10 ms as a rule. 0 when the process is gone.
std::chrono::nanoseconds cpu_time_of(pid_t pid);

/// A number that changes when a file grows; 0 for a path that is empty or no plain file.
std::uint64_t growth_of(const std::string& path);
/// The same of a worker's stdout; an empty path: it has the agent's own, maybe with others.
std::uint64_t growth_of_stdout(const std::string& path);

}  // namespace ddprun
