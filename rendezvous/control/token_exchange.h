// TokenExchange: the proof of the job's token on one connection (job_token.h), of who connects and
// of the agent that has been connected to. Internal to control.
#pragma once

#include <cstdint>
#include <memory>

#include "rendezvous/control/authentication.h"
#include "rendezvous/control/job_token.h"

namespace ddprun {

/// Of an agent that was connected to. Who says too little for 5 s is another. Its first bytes are
/// looked at one by one: a store client sends fewer than a preamble has.
Authentication ask_for_token(boost::asio::io_context& io, Channel channel,
                             std::shared_ptr<const JobToken> token, AuthenticationOwner& owner,
                             std::uint64_t id);

/// Of who connects. How long it waits is its owner's business. Of another it reads a preamble at
/// most.
Authentication prove_token(boost::asio::io_context& io, Channel channel,
                           std::shared_ptr<const JobToken> token, AuthenticationOwner& owner,
                           std::uint64_t id);

}  // namespace ddprun
