// Guardian: the small process between the user's shell and the agent. Agent and guardian are both
// subreapers and watch each other, so that whatever a worker started, in whatever session, ends
// when either of them is killed: SIGKILL the agent, and the guardian adopts, kills and reaps all
// that is left; SIGKILL the guardian, and the agent does the same and ends.
//
// They share one table of descriptors (clone(2), CLONE_FILES). So the connections of a killed agent
// close when the guardian has reaped all that the agent had started: to the other nodes, a closed
// connection means that no worker of this node is left. They close in order, whatever the agent had
// not read yet (orderly_close.h).
#pragma once

#include <functional>

namespace ddprun {

/// The guardian's process has it (prctl(2), PR_SET_NAME: at most 15 bytes) from before it waits for
/// signals, so that `pkill ddprun` finds the agent alone: it is told once, and `pkill -9 ddprun`
/// leaves the one alive that cleans up.
inline constexpr char kGuardianName[] = "ddp-guardian";

/// Forks. The calling process becomes the guardian: it forwards signals to the agent, waits, cleans
/// up, and returns the exit code for main to return (128 + signal when the agent was killed, after
/// a sentence on stderr), with all signals blocked: the agent's code is the last word. The child
/// becomes the agent: it runs `agent_main` and exits with its result. Call before any thread,
/// io_context or logger thread exists.
int run_under_guardian(const std::function<int()>& agent_main);

/// In the agent: a descriptor that becomes readable when the guardian is gone; -1 when there is no
/// guardian (a test that runs an agent directly).
int guardian_fd();

}  // namespace ddprun
