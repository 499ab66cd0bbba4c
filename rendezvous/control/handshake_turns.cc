#include "rendezvous/control/handshake_turns.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace ddprun {

void HandshakeTurns::wait(std::weak_ptr<HandshakeTurn> who) {
  waiting_.push_back(std::move(who));
  if (waiting_.size() == 1) {
    post();
  }
}

/// Asio looks at the sockets between two handlers that were posted one after the other. Those that
/// are gone cost nothing, and no turn.
void HandshakeTurns::post() {
  boost::asio::post(io_, [self = shared_from_this()] {
    auto& waiting = self->waiting_;
    std::shared_ptr<HandshakeTurn> next;
    while (!next && !waiting.empty()) {
      next = waiting.front().lock();
      waiting.pop_front();
    }
    if (!waiting.empty()) {
      self->post();
    }
    if (next) {
      next->on_turn();
    }
  });
}

}  // namespace ddprun
