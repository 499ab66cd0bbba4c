#include "rendezvous/control/acceptor.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "rendezvous/control/beat_socket.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;

/// A thousand agents may come at once after a failure. Between two turns the loop answers beats.
constexpr int kAcceptsPerTurn = 64;
/// While the process has no descriptor to spare.
constexpr std::chrono::milliseconds kPause{100};

/// The process or the machine lacks something. All other errors of accept(2) concern one
/// connection, which is gone then.
bool is_exhausted(int errno_value) {
  return errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOMEM ||
         errno_value == ENOBUFS;
}

class ListeningSocket final : public Acceptor,
                              public std::enable_shared_from_this<ListeningSocket> {
 public:
  ListeningSocket(asio::io_context& io, Fd listener, AcceptorHandler& handler)
      : socket_(io, listener.get()), pause_(io), handler_(handler) {
    (void)listener.release();
  }

  void start() override { wait(); }

  void close() override {
    if (!over_) {
      (void)release();
    }
  }

  /// The waits below hold no shared pointer: one that comes after this finds `over_`, or nothing.
  Fd release() override {
    over_ = true;
    pause_.cancel();
    return Fd(socket_.release());
  }

 private:
  void wait() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [weak = weak_from_this()](boost::system::error_code failed) {
                         if (const auto self = weak.lock(); self && !failed && !self->over_) {
                           self->accept_some();
                         }
                       });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      Fd connection(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection) {
        if (!is_exhausted(errno)) {
          break;  // no connection is left, or one has gone again
        }
        handler_.on_exhausted(errno, !std::exchange(exhausted_, true));
        pause();
        return;
      }
      prepare_beat_socket(connection.get());
      handler_.on_accepted(std::move(connection));
      // The handler may have closed this acceptor: a job ends while agents still arrive.
      if (over_) {
        return;
      }
    }
    exhausted_ = false;
    wait();
  }

  /// A connection without a descriptor stays in the backlog, and the socket stays readable. Without
  /// a pause the loop would spin on it, and no connection that could be closed would get its turn.
  void pause() {
    pause_.expires_after(kPause);
    pause_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
      if (const auto self = weak.lock(); self && !failed && !self->over_) {
        self->wait();
      }
    });
  }

  asio::posix::stream_descriptor socket_;
  asio::steady_timer pause_;
  AcceptorHandler& handler_;
  bool over_ = false;
  bool exhausted_ = false;  ///< since the last turn that ended without it
};

}  // namespace

std::shared_ptr<Acceptor> Acceptor::create(asio::io_context& io, Fd listener,
                                           AcceptorHandler& handler) {
  return std::make_shared<ListeningSocket>(io, std::move(listener), handler);
}

}  // namespace ddprun
