// Greeting: the first words of an agent on a connection to another: its credentials, a hello, and
// the answer. LeaderSearch decides what comes of that. Internal to control.
#pragma once

#include <memory>

#include "rendezvous/control/authentication.h"
#include "rendezvous/node/leader_search.h"

namespace ddprun {

class GreetingOwner {
 public:
  GreetingOwner() = default;
  GreetingOwner(const GreetingOwner&) = delete;
  GreetingOwner& operator=(const GreetingOwner&) = delete;
  virtual ~GreetingOwner() = default;

  /// Once, on the loop, unless the greeting was ended first.
  virtual void on_greeted(search::Input heard) = 0;
};

class Greeting {
 public:
  /// How long it waits is its owner's business. `owner` outlives it, or ends it before it dies.
  static std::shared_ptr<Greeting> begin(boost::asio::io_context& io, Fd socket,
                                         const Credentials& credentials, message::Hello hello,
                                         GreetingOwner& owner);
  Greeting() = default;
  Greeting(const Greeting&) = delete;
  Greeting& operator=(const Greeting&) = delete;
  virtual ~Greeting() = default;

  /// After search::Accepted: the connection goes on with it, behind the answer.
  virtual Channel release() = 0;
  /// Closes the connection. The owner is not called any more.
  virtual void close() = 0;
};

}  // namespace ddprun
