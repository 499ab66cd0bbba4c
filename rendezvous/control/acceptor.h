// Acceptor: takes connections from a listening socket, some at a turn of the loop, and pauses while
// the process has no descriptor to spare. Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "rendezvous/base/fd.h"

namespace ddprun {

class AcceptorHandler {
 public:
  AcceptorHandler() = default;
  AcceptorHandler(const AcceptorHandler&) = delete;
  AcceptorHandler& operator=(const AcceptorHandler&) = delete;
  virtual ~AcceptorHandler() = default;

  /// For each connection, on the loop.
  virtual void on_accepted(Fd connection) = 0;
  /// There was no descriptor for one, says this errno; it is tried again after a pause.
  virtual void on_exhausted(int /*errno_value*/) {}
};

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  /// `listener` is listening and non-blocking. `handler` outlives this, or closes it before it
  /// dies.
  static std::shared_ptr<Acceptor> create(boost::asio::io_context& io, Fd listener,
                                          AcceptorHandler& handler);
  void start() { wait(); }
  /// Nobody is accepted any more: the socket is closed, or handed back.
  void close();
  Fd release();

 private:
  Acceptor(boost::asio::io_context& io, Fd listener, AcceptorHandler& handler);
  void wait();
  void accept_some();

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  AcceptorHandler& handler_;
  bool over_ = false;
};

}  // namespace ddprun
