// ThreadStates: what /proc tells of a process that does not go on, for which no tool is needed:
// each thread's state, and where in the kernel it waits. Reads only; never blocks on the process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun {

/// Described of one process; the rest are counted.
inline constexpr std::size_t kThreadsDescribedMax = 64;

/// Ids of the threads, the main one first; empty when the process is gone.
std::vector<pid_t> threads_of(pid_t pid);

/// The kernel function that the process waits in; empty: none, or it may not be known.
std::string wait_channel(pid_t pid);

/// One line per thread: "thread 12 (train): state S (sleeping), waits in futex_wait_queue, system
/// call 202"; below it the kernel's stack where that may be read. Empty when the process is gone.
std::string describe_threads(pid_t pid);

/// The path of what it executes; empty when gone.
std::string executable_of(pid_t pid);
/// Whether the process has a handler for the signal.
bool catches(pid_t pid, int signal);

}  // namespace ddprun
