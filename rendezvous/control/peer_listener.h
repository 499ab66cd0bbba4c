// PeerListener: the listening socket of an agent that is no coordinator. Other agents come there
// with a question of one message (a vote, who leads), and strangers as anywhere. Every connection
// is answered once and closed; who says nothing is closed after a while. Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/control/acceptor.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

class PeerListener : public std::enable_shared_from_this<PeerListener> {
 public:
  /// The answer to a question that came from this address; none closes the connection without one.
  /// A Follow names that address first.
  using Answer = std::function<std::optional<message::Message>(const message::Message&,
                                                               const std::string& from)>;

  /// `listener` is listening and non-blocking.
  static std::shared_ptr<PeerListener> open(boost::asio::io_context& io, Fd listener,
                                            Answer answer);
  /// Hands the listening socket back; answers nobody any more.
  Fd close();
  /// Listens no more. Who has come is answered.
  void close_port() { acceptor_->close(); }

 private:
  PeerListener(boost::asio::io_context& io, Answer answer) : io_(io), answer_(std::move(answer)) {}
  void accept(Fd socket);
  void drop(std::uint64_t id);

  boost::asio::io_context& io_;
  std::shared_ptr<Acceptor> acceptor_;
  Answer answer_;
  std::map<std::uint64_t, std::shared_ptr<Connection>> guests_;
  std::uint64_t last_ = 0;
  bool closed_ = false;
};

}  // namespace ddprun
