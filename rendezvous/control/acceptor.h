// Acceptor: takes connections from a listening socket, some at a turn of the loop, and pauses while
// the process has no descriptor to spare. Internal to control.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/control/authentication.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class AcceptorHandler {
 public:
  AcceptorHandler() = default;
  AcceptorHandler(const AcceptorHandler&) = delete;
  AcceptorHandler& operator=(const AcceptorHandler&) = delete;
  virtual ~AcceptorHandler() = default;

  /// For each connection, on the loop; where credentials are asked for, once both sides have shown
  /// them.
  virtual void on_accepted(Channel connection) = 0;
  /// There was no descriptor for one, says this errno; it is tried again ten times a second.
  /// `first`: all that had come before were accepted, so it is worth a line in the log.
  virtual void on_exhausted(int /*errno_value*/, bool /*first*/) {}
  /// Where credentials are asked for: of who does not speak our protocol, and what has been read
  /// from it. The connection may be closed by now; the address was taken before.
  virtual void on_stranger(Channel /*connection*/, const std::string& /*address*/,
                           const std::string& /*bytes*/) {}
  /// The same of one that has not the job's credentials, which has been told.
  virtual void on_refused(const std::string& /*address*/, const std::string& /*why*/) {}
};

class Acceptor {
 public:
  /// `listener` is listening and non-blocking. `handler` outlives this, or closes it before it
  /// dies. `credentials`: who connects must show that it has them.
  static std::shared_ptr<Acceptor> create(boost::asio::io_context& io, Fd listener,
                                          AcceptorHandler& handler, Credentials credentials);
  Acceptor() = default;
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  virtual ~Acceptor() = default;

  virtual void start() = 0;
  /// Nobody is accepted any more: the socket is closed, or handed back.
  virtual void close() = 0;
  virtual Fd release() = 0;
};

}  // namespace ddprun
