// Orphans: processes that workers started and left behind, in whatever session. The agent is their
// subreaper: they become its children when their parent dies, and it kills and reaps them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <span>

#include "rendezvous/base/result.h"

namespace ddprun {

/// Makes this process the one that adopts orphans below it (PR_SET_CHILD_SUBREAPER).
Result<void> become_subreaper();

/// Kills (SIGKILL) and reaps every descendant of this process but `keep` and their descendants;
/// repeats until none is left, since new ones may be forked meanwhile, or until `bound` has passed
/// (a process in an uninterruptible sleep cannot be killed). Returns how many were killed, or an
/// Error that lists the pids that would not die. Never reaps a pid in `keep`.
Result<int> kill_descendants(std::span<const pid_t> keep, std::chrono::milliseconds bound);

}  // namespace ddprun
