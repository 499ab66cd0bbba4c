// RemoteAgent: the agent of another machine that hosts a job's coordinator, as ddpctl --at reaches
// it: by TCP at the rendezvous endpoint, after both sides have proved the job's token
// (rendezvous/control/job_token.h). What is said over the connection then is HTTP, as over an
// agent's Unix socket.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "launcher/ctl/agent_finder.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/control/job_token.h"

namespace ddprun {

struct RemoteAgent {
  Endpoint at;
  JobToken token;
};

/// With the token of this file, else that of DDPRUN_JOB_TOKEN. An Error where there is none.
Result<RemoteAgent> remote_agent(const Endpoint& at, const std::optional<std::string>& token_file);

/// A connection on which both sides have proved the token, or why there is none.
std::variant<Fd, CtlFailure> connect_to_remote(const RemoteAgent& agent, net::Deadline deadline);

}  // namespace ddprun
