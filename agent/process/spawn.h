// SessionLauncher: from a request to a running process in a session of its own. The system calls
// only; worker_process.cc makes a Boost.Process launcher of it, and awaits the end.
#pragma once

#include <sys/types.h>

#include "agent/process/worker_process.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// A child that has replaced itself by its program. The caller reaps it.
struct LaunchedProcess {
  pid_t pid = -1;
  Fd pidfd;  ///< becomes readable when the process has ended
};

/// Returns once the program has been executed, or an Error when it could not be: then the child
/// has been reaped already. The process leads its own session, dies by SIGKILL when the calling
/// *thread* ends (PR_SET_PDEATHSIG follows the thread: call it from the agent's only thread), has
/// every signal unblocked and at its default, and no descriptor but 0, 1, 2 and the request's own;
/// a standard stream that is closed here is /dev/null there. Needs Linux 5.9 (close_range).
Result<LaunchedProcess> launch_session(const SpawnRequest& request);

}  // namespace ddprun
