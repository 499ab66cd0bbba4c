// Acceptor: takes connections from a listening socket, some at a turn of the loop, and pauses while
// the process has no descriptor to spare. Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "rendezvous/base/fd.h"

namespace ddprun {

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  /// `listener` is listening and non-blocking. `accepted` is called on the loop for each
  /// connection; `exhausted` (may be empty) with the errno when there was no descriptor for one.
  static std::shared_ptr<Acceptor> create(boost::asio::io_context& io, Fd listener,
                                          std::function<void(Fd)> accepted,
                                          std::function<void(int)> exhausted = {});
  void start() { wait(); }
  /// Nobody is accepted any more: the socket is closed, or handed back.
  void close();
  Fd release();

 private:
  Acceptor(boost::asio::io_context& io, Fd listener, std::function<void(Fd)> accepted,
           std::function<void(int)> exhausted);
  void wait();
  void accept_some();

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  std::function<void(Fd)> accepted_;
  std::function<void(int)> exhausted_;
  bool over_ = false;
};

}  // namespace ddprun
