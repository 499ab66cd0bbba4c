#include "rendezvous/control/acceptor.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/beat_socket.h"
#include "rendezvous/control/handshake_limits.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;

/// A thousand agents may come at once after a failure. Between two turns the loop answers beats.
constexpr int kAcceptsPerTurn = 64;
/// While the process has no descriptor to spare.
constexpr std::chrono::milliseconds kPause{100};
/// Connections that are told why they were refused, at one time.
constexpr std::size_t kRefusalsMax = 64;

/// The process or the machine lacks something. All other errors of accept(2) concern one
/// connection, which is gone then.
bool is_exhausted(int errno_value) {
  return errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOMEM ||
         errno_value == ENOBUFS;
}

class ListeningSocket final : public Acceptor,
                              private AuthenticationOwner,
                              public std::enable_shared_from_this<ListeningSocket> {
 public:
  ListeningSocket(asio::io_context& io, Fd listener, AcceptorHandler& handler,
                  Credentials credentials)
      : io_(io),
        socket_(io, listener.get()),
        pause_(io),
        handler_(handler),
        credentials_(std::move(credentials)) {
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
    guests_.clear();
    refusals_.clear();
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
      // Taken here: one that was reset in the backlog has no far end any more.
      net::Address from;
      from.size = sizeof from.storage;
      Fd connection(::accept4(socket_.native_handle(), reinterpret_cast<sockaddr*>(&from.storage),
                              &from.size, SOCK_CLOEXEC));
      if (!connection) {
        if (!is_exhausted(errno)) {
          break;  // no connection is left, or one has gone again
        }
        drop_oldest();
        handler_.on_exhausted(errno, !std::exchange(exhausted_, true));
        pause();
        return;
      }
      prepare_beat_socket(connection.get());
      if (credentials_.any()) {
        ask_for_credentials(std::move(connection), from.host());
      } else {
        handler_.on_accepted(std::move(connection));
      }
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

  struct Guest {
    std::string address;  ///< numeric
    Authentication authentication;
  };

  /// Strangers may fill neither memory nor descriptors: the oldest makes room.
  void ask_for_credentials(Fd connection, std::string address) {
    if (guests_.size() >= max_unauthenticated()) {
      drop_oldest();
    }
    const std::uint64_t id = ++last_guest_;
    guests_.emplace(id, Guest{std::move(address), authenticate_guest(io_, std::move(connection),
                                                                     credentials_, *this, id)});
  }

  /// What an owner closes meanwhile ends its exchange with it, so each id is found.
  /// From here on a connection is as any other: the limits of who has not said hello hold anew.
  void on_authenticated(std::uint64_t id, AuthenticationOutcome outcome) override {
    Guest guest = std::move(guests_.extract(id).mapped());
    switch (outcome.who) {
      case AuthenticationOutcome::Who::member:
        handler_.on_accepted(std::move(outcome.channel));
        break;
      case AuthenticationOutcome::Who::other:
        handler_.on_stranger(std::move(outcome.channel), guest.address, outcome.said);
        break;
      case AuthenticationOutcome::Who::refused:
        keep_refusal(std::move(guest.authentication));
        handler_.on_refused(guest.address, outcome.said);
        break;
      case AuthenticationOutcome::Who::gone:
      case AuthenticationOutcome::Who::impostor:  // only who listens is one
      case AuthenticationOutcome::Who::distrusted:
      case AuthenticationOutcome::Who::garbled:
        break;
    }
  }

  /// The refusal is still to be read. One that nobody reads makes room for others.
  void keep_refusal(Authentication authentication) {
    refusals_.push_back(std::move(authentication));
    if (refusals_.size() > kRefusalsMax) {
      refusals_.pop_front();
    }
  }

  /// It is closed. An agent that was only slow tries again.
  void drop_oldest() {
    if (!guests_.empty()) {
      guests_.erase(guests_.begin());
    }
  }

  asio::io_context& io_;
  asio::posix::stream_descriptor socket_;
  asio::steady_timer pause_;
  AcceptorHandler& handler_;
  Credentials credentials_;
  std::map<std::uint64_t, Guest> guests_;  ///< under way; by age: ids rise
  std::uint64_t last_guest_ = 0;
  std::deque<Authentication> refusals_;  ///< the newest
  bool over_ = false;
  bool exhausted_ = false;  ///< since the last turn that ended without it
};

}  // namespace

std::shared_ptr<Acceptor> Acceptor::create(asio::io_context& io, Fd listener,
                                           AcceptorHandler& handler, Credentials credentials) {
  return std::make_shared<ListeningSocket>(io, std::move(listener), handler,
                                           std::move(credentials));
}

}  // namespace ddprun
