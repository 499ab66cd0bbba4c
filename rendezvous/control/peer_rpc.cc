#include "rendezvous/control/peer_rpc.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <deque>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/control/authentication.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// As Happy Eyeballs (RFC 8305): the next address is tried while the earlier ones go on. An address
/// that answers does so within this time, on any network that a job can run in.
constexpr std::chrono::milliseconds kNextAfter{50};

class PeerRpc : public std::enable_shared_from_this<PeerRpc>,
                private ConnectionHandler,
                private AuthenticationOwner {
 public:
  PeerRpc(asio::io_context& io, PeerQuestion question, OnPeerAnswer done)
      : io_(io),
        question_(std::move(question)),
        bytes_(preamble() + encode(question_.said)),
        done_(std::move(done)),
        next_(io) {}

  ~PeerRpc() override { cancel(); }

  /// At the next address, if there is one.
  void begin_try() {
    if (!done_) {
      return;
    }
    // Only if no address leads to the voter's process, that process is gone. An address that is
    // silent proves nothing: a firewall may stand in between.
    if (tries_.size() == question_.addresses.size()) {
      if (ended_ == tries_.size()) {
        finish({std::nullopt, refused_ > 0 && refused_ == ended_});
      }
      return;
    }
    const std::size_t place = tries_.size();
    Try& one = tries_.emplace_back(io_);
    next_.expires_after(kNextAfter);
    next_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) {
        self->begin_try();
      }
    });
    error_code failed;
    const auto address = asio::ip::make_address(question_.addresses[place], failed);
    // Later, as every other failure: end_try() begins the next try, and this one has not returned
    // yet.
    if (failed) {
      asio::post(io_, [self = shared_from_this(), place] { self->end_try(place); });
      return;
    }
    one.limit.expires_after(question_.patience);
    one.limit.async_wait([self = shared_from_this(), place](error_code cancelled) {
      if (!cancelled) {
        self->end_try(place);
      }
    });
    one.socket.async_connect(
        {address, question_.port},
        [self = shared_from_this(), place](error_code error) { self->on_connected(place, error); });
  }

  /// Operations that were begun keep this object until their handlers have run.
  void cancel() {
    done_ = nullptr;
    next_.cancel();
    for (Try& one : tries_) {
      one.close();
    }
  }

 private:
  struct Try {
    explicit Try(asio::io_context& io) : socket(io), limit(io) {}
    void close() {
      over = true;
      limit.cancel();
      authentication.reset();
      error_code ignored;
      socket.close(ignored);
      if (connection) {
        std::exchange(connection, nullptr)->close();
      }
    }

    asio::ip::tcp::socket socket;
    asio::steady_timer limit;
    Authentication authentication;  ///< while it is under way
    std::shared_ptr<Connection> connection;
    bool over = false;
  };

  void on_connected(std::size_t place, const error_code& error) {
    if (!done_ || tries_[place].over) {
      return;
    }
    refused_ += error == asio::error::connection_refused ? 1 : 0;
    error_code failed = error;
    Fd socket(failed ? -1 : tries_[place].socket.release(failed));
    if (failed) {
      end_try(place);
    } else if (question_.credentials.any()) {
      tries_[place].authentication =
          authenticate_host(io_, std::move(socket), question_.credentials, *this, place);
    } else {
      ask(place, std::move(socket));
    }
  }

  /// Nobody is told why here: an agent that has no valid credentials any more is told where it
  /// searches for a coordinator.
  void on_authenticated(std::uint64_t place, AuthenticationOutcome outcome) override {
    const auto alive = shared_from_this();
    if (outcome.who == AuthenticationOutcome::Who::member) {
      ask(place, std::move(outcome.channel));
    } else {
      end_try(place);
    }
  }

  /// It failed, or its answer does not count. The next address is tried at once and not after the
  /// pause: most addresses that lead nowhere are refused at once.
  void end_try(std::size_t place) {
    if (!done_ || tries_[place].over) {
      return;
    }
    tries_[place].close();
    ++ended_;
    begin_try();
  }

  /// Without a heartbeat: the limit of the try bounds how long an answer may take.
  void ask(std::size_t place, Channel channel) {
    const auto connection =
        Connection::create(io_, std::move(channel), ConnectionOptions{}, *this, place);
    tries_[place].connection = connection;
    connection->start();
    connection->send(bytes_);
  }

  void on_message(std::uint64_t place, message::Message said) override {
    const auto alive = shared_from_this();
    if (!done_) {
      return;
    }
    const auto from = question_.from ? question_.from(said) : PeerQuestion::From::asked;
    // Another agent at this address has its port: the process that is asked cannot have it as well.
    refused_ += from == PeerQuestion::From::another ? 1 : 0;
    if (from == PeerQuestion::From::asked) {
      finish({std::move(said), false});
    } else {
      end_try(place);
    }
  }

  void on_no_preamble(std::uint64_t place, PreambleCheck, std::string) override {
    const auto alive = shared_from_this();
    end_try(place);
  }

  void on_ended(std::uint64_t place, const CloseReason&) override {
    const auto alive = shared_from_this();
    end_try(place);
  }

  void finish(const PeerAnswer& answer) {
    const auto alive = shared_from_this();
    auto done = std::exchange(done_, nullptr);
    cancel();
    if (done) {
      done(answer);
    }
  }

  asio::io_context& io_;
  PeerQuestion question_;
  std::string bytes_;
  OnPeerAnswer done_;
  asio::steady_timer next_;
  std::deque<Try> tries_;  ///< at the first addresses, in their order
  std::size_t ended_ = 0;  ///< of the tries
  std::size_t refused_ = 0;
};

}  // namespace

std::shared_ptr<void> rpc_to_peer(asio::io_context& io, PeerQuestion question, OnPeerAnswer done) {
  auto call = std::make_shared<PeerRpc>(io, std::move(question), std::move(done));
  // Begins on the loop, so that `done` is not called before the caller has the handle. The deleter
  // of that cancels the call; the object itself lives until its last handler has run.
  asio::post(io, [call] { call->begin_try(); });
  return {call.get(), [call](void*) { call->cancel(); }};
}

}  // namespace ddprun
