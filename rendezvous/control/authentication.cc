#include "rendezvous/control/authentication.h"

#include <boost/asio/io_context.hpp>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/control/tls_handshake.h"
#include "rendezvous/control/token_exchange.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Who = AuthenticationOutcome::Who;

/// Nobody asks what becomes of last words.
class Unheard final : public ConnectionHandler {
  void on_message(std::uint64_t /*id*/, message::Message /*said*/) override {}
  void on_no_preamble(std::uint64_t, PreambleCheck, std::string) override {}
  void on_ended(std::uint64_t, const CloseReason&) override {}
};

/// TLS first: so the token's proof is not seen on the way, and who has no certificate of the
/// authority cannot try tokens out.
class Steps final : private AuthenticationOwner, public std::enable_shared_from_this<Steps> {
 public:
  Steps(asio::io_context& io, Credentials credentials, TlsSide side, AuthenticationOwner& owner,
        std::uint64_t id)
      : io_(io), credentials_(std::move(credentials)), side_(side), owner_(owner), id_(id) {}

  void begin(Fd socket) {
    DDP_CHECK(credentials_.any(), "there is something to show");
    if (!credentials_.tls) {
      exchange_token(std::move(socket));
    } else if (side_ == TlsSide::accepts) {
      step_ = accept_tls(io_, std::move(socket), *credentials_.tls, *this, id_);
    } else {
      step_ = connect_tls(io_, std::move(socket), *credentials_.tls, *this, id_);
    }
  }

  /// The step closes the connection, or a refusal that is still on its way.
  void cancel() {
    over_ = true;
    step_.reset();
  }

 private:
  void on_authenticated(std::uint64_t /*id*/, AuthenticationOutcome outcome) override {
    const auto alive = shared_from_this();
    if (outcome.who == Who::member && credentials_.token && !std::exchange(has_tls_, true)) {
      exchange_token(std::move(outcome.channel));
    } else if (!over_) {
      owner_.on_authenticated(id_, std::move(outcome));
    }
  }

  /// The step before is let go of in the end: this is called from it.
  void exchange_token(Channel channel) {
    has_tls_ = true;
    const auto before = std::exchange(
        step_, side_ == TlsSide::accepts
                   ? ask_for_token(io_, std::move(channel), credentials_.token, *this, id_)
                   : prove_token(io_, std::move(channel), credentials_.token, *this, id_));
  }

  asio::io_context& io_;
  Credentials credentials_;
  TlsSide side_;
  AuthenticationOwner& owner_;
  std::uint64_t id_;
  Authentication step_;
  bool has_tls_ = false;  ///< or there is none: the token is what is left
  bool over_ = false;
};

/// The handle is apart from the object: this one lives until its last handler has run.
Authentication begin(asio::io_context& io, Fd socket, const Credentials& credentials, TlsSide side,
                     AuthenticationOwner& owner, std::uint64_t id) {
  auto steps = std::make_shared<Steps>(io, credentials, side, owner, id);
  steps->begin(std::move(socket));
  return {steps.get(), [steps](void*) { steps->cancel(); }};
}

}  // namespace

Authentication authenticate_guest(asio::io_context& io, Fd socket, const Credentials& credentials,
                                  AuthenticationOwner& owner, std::uint64_t id) {
  return begin(io, std::move(socket), credentials, TlsSide::accepts, owner, id);
}

Authentication authenticate_host(asio::io_context& io, Fd socket, const Credentials& credentials,
                                 AuthenticationOwner& owner, std::uint64_t id) {
  return begin(io, std::move(socket), credentials, TlsSide::connects, owner, id);
}

// A connection has what it takes: a queue, a limit of time, and an end that loses nothing.
std::shared_ptr<void> say_last(asio::io_context& io, Channel channel, std::string_view bytes) {
  static Unheard nobody;
  ConnectionOptions how;
  how.expect_preamble = false;
  const auto connection = Connection::create(io, std::move(channel), how, nobody);
  connection->start();
  connection->send(bytes);
  connection->close_after_flush();
  return {connection.get(), [connection](void*) { connection->close(); }};
}

}  // namespace ddprun
