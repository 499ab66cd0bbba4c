// RemoteAgent: the agent of another machine that hosts a job's coordinator, as ddpctl --at reaches
// it: by TCP at the rendezvous endpoint, after both sides have shown the job's credentials
// (rendezvous/control/authentication.h). What is said over the connection then is HTTP, as over an
// agent's Unix socket.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "launcher/ctl/agent_finder.h"
#include "launcher/job_certificates.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/control/channel.h"
#include "rendezvous/control/job_tls.h"
#include "rendezvous/control/job_token.h"

namespace ddprun {

/// One of the two at least.
struct RemoteAgent {
  Endpoint at;
  std::optional<JobToken> token;
  std::shared_ptr<JobTls> tls;  ///< null: none
};

/// With the token of this file, else that of DDPRUN_JOB_TOKEN, and with these certificates, else
/// those of DDPRUN_TLS_CA and the others. An Error where there are neither.
Result<RemoteAgent> remote_agent(const Endpoint& at, const std::optional<std::string>& token_file,
                                 const GivenCertificates& certificates);

/// Of a handshake that failed: whose certificate is to blame.
CtlFailure tls_failed(const std::string& failure, const std::string& where);

/// A connection on which both sides have shown what the job asks for, or why there is none.
std::variant<Channel, CtlFailure> connect_to_remote(const RemoteAgent& agent,
                                                    net::Deadline deadline);

}  // namespace ddprun
