// AgentClient: one question to an agent, over its Unix socket or from another machine, and the
// answer. Blocks for no longer than kCtlPatience, and where a name is resolved as that takes.
#pragma once

#include <chrono>
#include <string>
#include <variant>

#include "launcher/ctl/agent_finder.h"
#include "launcher/ctl/remote_agent.h"

namespace ddprun {

inline constexpr std::chrono::milliseconds kCtlPatience{5'000};
/// The status of a job of ten thousand nodes has some 3 MiB.
inline constexpr std::size_t kCtlAnswerBytesMax = 64UL * 1024 * 1024;

struct AgentAnswer {
  int status = 0;
  std::string body;
};

/// The agent that is spoken with: one of this host, or another machine's.
using ChosenAgent = std::variant<FoundAgent, RemoteAgent>;
inline bool is_remote(const ChosenAgent& agent) {
  return std::holds_alternative<RemoteAgent>(agent);
}
/// For sentences: "agent nightly (pid 12)", "agent at n1:29400".
std::string name_of(const ChosenAgent& agent);

struct AgentRequest {
  std::string method;     ///< "GET" or "POST"
  std::string target;     ///< "/status.json"
  std::string body = {};  ///< a name at most
};
/// An answer of any status is an answer.
std::variant<AgentAnswer, CtlFailure> ask_agent(const ChosenAgent& agent,
                                                const AgentRequest& request);
/// The answer's body; one that is no success (2xx) is a failure with the agent's own sentence.
std::variant<std::string, CtlFailure> body_from(const ChosenAgent& agent,
                                                const AgentRequest& request);

}  // namespace ddprun
