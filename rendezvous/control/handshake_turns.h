// HandshakeTurns: what costs an agent a signature is done once in a turn of its loop. Strangers may
// begin hundreds of handshakes at a time; between two of them all that is ready is served, so that
// no beat of a running job waits for them. Internal to control.
#pragma once

#include <deque>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace ddprun {

/// Who waits for its turn; it may be gone before that comes.
class HandshakeTurn {
 public:
  HandshakeTurn() = default;
  HandshakeTurn(const HandshakeTurn&) = delete;
  HandshakeTurn& operator=(const HandshakeTurn&) = delete;
  virtual ~HandshakeTurn() = default;
  /// Once for each wait, on the loop.
  virtual void on_turn() = 0;
};

class HandshakeTurns : public std::enable_shared_from_this<HandshakeTurns> {
 public:
  explicit HandshakeTurns(boost::asio::io_context& io) : io_(io) {}
  void wait(std::weak_ptr<HandshakeTurn> who);

 private:
  void post();

  boost::asio::io_context& io_;
  std::deque<std::weak_ptr<HandshakeTurn>> waiting_;  ///< the oldest first; its turn is posted
};

}  // namespace ddprun
