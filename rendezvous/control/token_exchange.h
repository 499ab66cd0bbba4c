// TokenExchange: the proof of the job's token on one connection (job_token.h), of who connects and
// of the agent that has been connected to. Internal to control.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/control/job_token.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

/// What came of it.
struct TokenOutcome {
  enum class Who : std::uint8_t {
    member,    ///< both have the token: `socket` goes on as a connection without one begins
    impostor,  ///< who listens asked for the token, and does not have it
    refused,   ///< who has connected does not have it, and has been told: `said` is why
    other,     ///< it said something else: `said`, and `socket` where it left off
    gone       ///< it closed the connection, or that broke, after `said`
  };
  Who who = Who::gone;
  Fd socket = {};
  std::string said = {};
  bool by_reset = false;
};

class TokenExchangeOwner {
 public:
  TokenExchangeOwner() = default;
  TokenExchangeOwner(const TokenExchangeOwner&) = delete;
  TokenExchangeOwner& operator=(const TokenExchangeOwner&) = delete;
  virtual ~TokenExchangeOwner() = default;

  /// Once for each exchange, on the loop, unless that was ended first. `id` is what its owner
  /// called it.
  virtual void on_token(std::uint64_t id, TokenOutcome outcome) = 0;
};

/// Its owner outlives it, or destroys this handle before it dies. After that nothing is called, and
/// the connection is closed; a refusal is sent for as long as the handle lives.
using TokenExchange = std::shared_ptr<void>;

/// Of an agent that was connected to. Who says too little for 5 s is another. Its first bytes are
/// looked at one by one: a store client sends fewer than a preamble has.
TokenExchange ask_for_token(boost::asio::io_context& io, Fd socket,
                            std::shared_ptr<const JobToken> token, TokenExchangeOwner& owner,
                            std::uint64_t id);

/// Of who connects. How long it waits is its owner's business. Of another it reads a preamble at
/// most.
TokenExchange prove_token(boost::asio::io_context& io, Fd socket,
                          std::shared_ptr<const JobToken> token, TokenExchangeOwner& owner,
                          std::uint64_t id);

}  // namespace ddprun
