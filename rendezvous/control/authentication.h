// Authentication: what two agents show each other before the first message: certificates, where the
// job has TLS (docs/tls.md), then the job's token, where it has one (docs/job-token.md). Internal
// to control.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous/control/channel.h"
#include "rendezvous/control/credentials.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

/// What came of it.
struct AuthenticationOutcome {
  enum class Who : std::uint8_t {
    member,      ///< both are of the job: `channel` goes on as one without credentials begins
    impostor,    ///< who listens asked for the token, and does not have it
    distrusted,  ///< who listens and this agent have no certificates for each other: `said` is why
    garbled,     ///< TLS with who listens failed, and by no certificate: `said` is why
    refused,     ///< who has connected is no member, and has been told: `said` is why
    other,       ///< it said something else: `said`, and `channel` where it left off
    gone         ///< it closed the connection, or that broke, after `said`
  };
  Who who = Who::gone;
  Channel channel = {};
  std::string said = {};
  bool by_reset = false;
};

class AuthenticationOwner {
 public:
  AuthenticationOwner() = default;
  AuthenticationOwner(const AuthenticationOwner&) = delete;
  AuthenticationOwner& operator=(const AuthenticationOwner&) = delete;
  virtual ~AuthenticationOwner() = default;

  /// Once for each, on the loop, unless that was ended first. `id` is what its owner called it.
  virtual void on_authenticated(std::uint64_t id, AuthenticationOutcome outcome) = 0;
};

/// Its owner outlives it, or destroys this handle before it dies. After that nothing is called, and
/// the connection is closed; a refusal is sent for as long as the handle lives.
using Authentication = std::shared_ptr<void>;

/// Of who has connected to this agent. Each of the two parts may take 5 s; who says too little is
/// another.
Authentication authenticate_guest(boost::asio::io_context& io, Fd socket,
                                  const Credentials& credentials, AuthenticationOwner& owner,
                                  std::uint64_t id);

/// Of the agent that this one has connected to. How long it waits is its owner's business.
Authentication authenticate_host(boost::asio::io_context& io, Fd socket,
                                 const Credentials& credentials, AuthenticationOwner& owner,
                                 std::uint64_t id);

/// Says these bytes as the last ones, and closes once they have been read, or after a while; what
/// comes in is dropped. (To close a socket with unread bytes may destroy an answer on its way.)
/// Destroying the handle closes at once.
std::shared_ptr<void> say_last(boost::asio::io_context& io, Channel channel,
                               std::string_view bytes);

}  // namespace ddprun
