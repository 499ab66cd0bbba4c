#include "rendezvous/control/gate.h"

#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "rendezvous/control/message_codec.h"

namespace ddprun {
namespace {

/// Guests at one time; the oldest makes room.
constexpr std::size_t kGuestsMax = 64;
constexpr int kAcceptsPerTurn = 16;
constexpr std::chrono::milliseconds kQuestionTimeout{5'000};

}  // namespace

std::shared_ptr<Gate> Gate::open(boost::asio::io_context& io, Fd listener, Answer answer) {
  auto gate = std::shared_ptr<Gate>(new Gate(io, std::move(answer)));
  gate->acceptor_.assign(listener.release());
  gate->wait();
  return gate;
}

void Gate::wait() {
  acceptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [weak = weak_from_this()](boost::system::error_code failed) {
                         if (const auto self = weak.lock(); self && !failed && !self->closed_) {
                           self->accept_some();
                         }
                       });
}

void Gate::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Fd socket(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      break;
    }
    if (guests_.size() >= kGuestsMax) {
      drop(guests_.begin()->first);
    }
    const std::uint64_t id = ++last_;
    ConnectionOptions how;
    how.preamble_timeout = kQuestionTimeout;
    const auto guest =
        Connection::create(io_, std::move(socket), how,
                           {[this, id](const message::Message& question) {
                              const auto alive = shared_from_this();
                              const auto found = guests_.find(id);
                              if (closed_ || found == guests_.end()) {
                                return;
                              }
                              const auto asker = found->second;
                              const auto answer = answer_(question);
                              if (!answer) {
                                drop(id);
                                return;
                              }
                              asker->send(preamble() + encode(*answer));
                              asker->close_after_flush();
                            },
                            [this, id](const PreambleCheck&, const std::string&) { drop(id); },
                            [this, id](const ConnectionEnd&) { drop(id); }});
    guests_.emplace(id, guest);
    guest->start();
  }
  wait();
}

void Gate::drop(std::uint64_t id) {
  if (auto guest = guests_.extract(id)) {
    guest.mapped()->close();
  }
}

Fd Gate::close() {
  closed_ = true;
  for (auto& [id, guest] : guests_) {
    guest->close();
  }
  guests_.clear();
  acceptor_.cancel();
  return Fd(acceptor_.release());
}

}  // namespace ddprun
