// PeerListener: the listening socket of an agent that is no coordinator. Other agents come there
// with a question of one message (a vote, who leads), and strangers as anywhere. Every connection
// is answered once and closed; who says nothing is closed after a while. Internal to control.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/control/acceptor.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/protocol/message.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class PeerListener : public std::enable_shared_from_this<PeerListener>,
                     private AcceptorHandler,
                     private ConnectionHandler {
 public:
  /// The answer to a question that came from this address; none closes the connection without one.
  /// A Follow names that address first.
  using Answer = std::function<std::optional<message::Message>(const message::Message&,
                                                               const std::string& from)>;

  /// `listener` is listening and non-blocking. `credentials`: see Acceptor.
  static std::shared_ptr<PeerListener> open(boost::asio::io_context& io, Fd listener, Answer answer,
                                            Credentials credentials);
  ~PeerListener() override;
  /// Hands the listening socket back; answers nobody any more.
  Fd close();
  /// Listens no more. Who has come is answered.
  void close_port() { acceptor_->close(); }

 private:
  PeerListener(boost::asio::io_context& io, Answer answer) : io_(io), answer_(std::move(answer)) {}
  struct Guest {
    std::shared_ptr<Connection> connection;
    std::string from;  ///< its address, numeric
  };

  void on_accepted(Channel channel) override;
  void on_message(std::uint64_t id, message::Message question) override;
  void on_no_preamble(std::uint64_t id, PreambleCheck check, std::string) override;
  void on_ended(std::uint64_t id, const CloseReason&) override { drop(id); }
  void drop(std::uint64_t id);
  void drop_all();

  boost::asio::io_context& io_;
  std::shared_ptr<Acceptor> acceptor_;
  Answer answer_;
  std::map<std::uint64_t, Guest> guests_;  ///< the oldest first
  std::uint64_t last_ = 0;
  bool closed_ = false;
};

}  // namespace ddprun
