// Exit codes of ddpctl. Value type; ddprun's own are in launcher/exit_status.h.
#pragma once

namespace ddprun {

inline constexpr int kCtlDone = 0;
inline constexpr int kCtlFailed = 1;         ///< the agent refused, or something else went wrong
inline constexpr int kCtlUsage = 2;          ///< a command line that cannot be read
inline constexpr int kCtlNoAgent = 3;        ///< no agent was found
inline constexpr int kCtlSeveralAgents = 4;  ///< more than one was found
inline constexpr int kCtlNoAnswer = 5;       ///< the agent did not answer in time

}  // namespace ddprun
