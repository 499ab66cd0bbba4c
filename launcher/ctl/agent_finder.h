// AgentFinder: which agent of this host ddpctl is to speak with (agent/operations/agent_socket.h).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <variant>

#include "agent/operations/agent_socket.h"
#include "rendezvous/base/result.h"

namespace ddprun {

struct FoundAgent {
  Fd directory;
  AgentSocketName name;
};

/// Why there is no agent to speak with, and ddpctl's exit code for it.
struct CtlFailure {
  Error error;
  int exit_code = 0;
};

/// The only agent of this user that `job` and `pid` leave; `pid` may be its guardian's, which is
/// the process that a shell has started. Root finds another user's by the pid.
std::variant<FoundAgent, CtlFailure> find_agent(const std::optional<std::string>& job,
                                                const std::optional<pid_t>& pid);

}  // namespace ddprun
