// Processes: what /proc says about other processes. For tests that look for a worker to kill, or
// for something that should not be left.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun::test {

/// Every process below `root`, parents before their children. Zombies are counted: a process that
/// nobody reaps is something left behind.
std::vector<pid_t> descendants_of(pid_t root);

/// False for a zombie: what is dead but not reaped runs nothing.
bool process_runs(pid_t pid);

/// Its first thread waits for something: whatever it had to do is done.
bool process_waits(pid_t pid);

/// Sends SIGSTOP; true once it is stopped.
[[nodiscard]] bool stop_process(pid_t pid);

/// Every process that runs with NAME=value in its environment, whoever its parent has become: put a
/// unique mark into a job's environment, and find whatever the job left behind.
std::vector<pid_t> processes_with(const std::string& name, const std::string& value);

/// A variable of the environment that a process was started with; empty when it has none.
std::string environment_of(pid_t pid, const std::string& name);

/// The arguments, joined by blanks.
std::string command_line_of(pid_t pid);

/// The oldest process below `root` whose environment has RANK=`rank` and whose parent has not (the
/// worker itself, neither a child of it nor a daemon); 0 when there is none.
pid_t worker_of(pid_t root, int rank);

/// Open file descriptors: "fd -> target" for each.
std::vector<std::string> descriptors_of(pid_t pid);

/// The TCP ports that it listens at.
std::vector<int> listening_ports_of(pid_t pid);

}  // namespace ddprun::test
