// AgentClient: one question to an agent over its Unix socket, and the answer. Blocks for no longer
// than kCtlPatience.
#pragma once

#include <chrono>
#include <string>
#include <variant>

#include "launcher/ctl/agent_finder.h"

namespace ddprun {

inline constexpr std::chrono::milliseconds kCtlPatience{5'000};
/// The status of a job of ten thousand nodes has some 3 MiB.
inline constexpr std::size_t kCtlAnswerBytesMax = 64UL * 1024 * 1024;

struct AgentAnswer {
  int status = 0;
  std::string body;
};

/// `method`: "GET" or "POST"; `target`: "/status.json". An answer of any status is an answer.
std::variant<AgentAnswer, CtlFailure> ask_agent(const FoundAgent& agent, const std::string& method,
                                                const std::string& target);
/// The answer's body; one that is no success (2xx) is a failure with the agent's own sentence.
std::variant<std::string, CtlFailure> body_from(const FoundAgent& agent, const std::string& method,
                                                const std::string& target);

}  // namespace ddprun
