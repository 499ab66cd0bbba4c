// Child: a part of a program that runs in a process of its own, so that a failed check (which
// aborts) ends that part alone.
#pragma once

#include <sys/types.h>

#include <functional>

namespace ddprun::sim {

pid_t run_in_child(const std::function<void()>& what);
/// Waits for its end. False: it aborted.
bool ended_well(pid_t pid);

}  // namespace ddprun::sim
