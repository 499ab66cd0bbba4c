#include "rendezvous/control/token_exchange.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <utility>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Who = TokenOutcome::Who;

/// An agent speaks first, at once, and answers at once.
constexpr std::chrono::milliseconds kPatience{5'000};

// Parts have known sizes, and nothing is read beyond them: the first byte after the exchange
// belongs to the connection that goes on with the socket.

/// What both sides do: they say a part, and read one of known size. It owns the socket meanwhile,
/// so an operation that is still under way when its owner lets go finds it alive.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  using Next = void (Exchange::*)();

  Exchange(asio::io_context& io, std::shared_ptr<const JobToken> token, TokenExchangeOwner& owner,
           std::uint64_t id)
      : token_(std::move(token)), socket_(io), owner_(owner), id_(id) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  /// An outcome comes later, never from inside of this.
  void begin(Fd socket, const net::Address& agents_end) {
    place_ = token_place(agents_end.host(), agents_end.port());
    const int family = net::far_end(socket.get()).storage.ss_family;
    error_code failed;
    socket_.assign(asio::generic::stream_protocol(family, 0), socket.get(), failed);
    if (failed) {  // epoll has no room for it
      asio::post(socket_.get_executor(), [self = shared_from_this()] { self->finish(Who::gone); });
      return;
    }
    (void)socket.release();
    start();
  }

  virtual void cancel() {
    over_ = true;
    error_code ignored;
    socket_.close(ignored);
  }

 protected:
  virtual void start() = 0;
  /// Whether these bytes begin a part that is waited for; more of it may follow. A stranger is to
  /// be known at its first wrong byte: it may wait for an answer to fewer bytes than a part has.
  virtual bool fits(const std::string& /*so_far*/) { return true; }

  /// Until `size` bytes are in `part_`.
  template <class Side>
  void read(std::size_t size, void (Side::*next)()) {
    part_.clear();
    read_on(size, static_cast<Next>(next));
  }

  /// Not async_read(): the first part may be shorter than asked for, and is looked at as it comes.
  void read_on(std::size_t size, Next next) {
    const std::size_t had = part_.size();
    part_.resize(size);
    socket_.async_receive(
        asio::buffer(part_.data() + had, size - had),
        [self = shared_from_this(), size, had, next](error_code failed, std::size_t n) {
          if (self->over_) {
            return;
          }
          self->part_.resize(had + (failed ? 0 : n));
          self->on_read(failed, size, next);
        });
  }

  void on_read(error_code failed, std::size_t size, Next next) {
    if (failed) {
      by_reset_ = failed == asio::error::connection_reset;
      finish(Who::gone);
    } else if (!fits(part_)) {
      finish(Who::other);
    } else if (part_.size() < size) {
      read_on(size, next);
    } else {
      (this->*next)();
    }
  }

  /// What cannot be written shows where the answer is read. A part is smaller than any socket's
  /// buffer, so it is gone before the next one is said.
  void say(std::string bytes) {
    said_ = std::move(bytes);
    asio::async_write(socket_, asio::buffer(said_),
                      [self = shared_from_this()](error_code, std::size_t) {});
  }

  void finish(Who who) {
    error_code failed;
    Fd socket(who == Who::gone ? -1 : socket_.release(failed));
    tell({failed ? Who::gone : who, std::move(socket), std::move(part_), by_reset_});
  }

  void tell(TokenOutcome outcome) {
    if (!over_) {
      Exchange::cancel();
      owner_.on_token(id_, std::move(outcome));
    }
  }

  Fd take_socket() {
    error_code failed;
    return Fd(socket_.release(failed));
  }

  [[nodiscard]] JobToken::Facts facts(std::string_view a, std::string_view b) const {
    return {a, b, place_};
  }

  std::shared_ptr<const JobToken> token_;
  asio::generic::stream_protocol::socket socket_;
  std::string part_;  ///< that was read last
  bool over_ = false;

 private:
  TokenExchangeOwner& owner_;
  std::uint64_t id_;
  std::string place_;
  std::string said_;  ///< the newest part; the one before has been answered
  bool by_reset_ = false;
};

/// Of the agent that has been connected to.
class Asking final : public Exchange, private ConnectionHandler {
 public:
  Asking(asio::io_context& io, std::shared_ptr<const JobToken> token, TokenExchangeOwner& owner,
         std::uint64_t id)
      : Exchange(io, std::move(token), owner, id), io_(io), limit_(io) {}

  void cancel() override {
    Exchange::cancel();
    limit_.cancel();
    if (refusal_) {
      std::exchange(refusal_, nullptr)->close();
    }
  }

 private:
  void start() override {
    limit_.expires_after(kPatience);
    limit_.async_wait([self = shared_from_this(), this](error_code cancelled) {
      if (!cancelled && !over_) {
        finish(Who::other);
      }
    });
    read(kPreambleBytes, &Asking::on_opening);
  }

  bool fits(const std::string& so_far) override {
    return !opening_ || check_preamble(so_far).verdict != PreambleVerdict::stranger;
  }

  /// An agent without the token said hello already, which nobody reads.
  void on_opening() {
    opening_ = false;
    const std::uint16_t version = check_preamble(part_).version;
    if (version == kTokenVersion) {
      read(kTokenNonceBytes, &Asking::on_nonce);
    } else {
      refuse(refusal_of(version, true));
    }
  }

  /// A nonce of this connection alone: what was proved on another one proves nothing here.
  void on_nonce() {
    theirs_ = std::exchange(part_, {});
    nonce_ = random_nonce();
    say(preamble(kTokenVersion) + nonce_);
    read(kTokenProofBytes, &Asking::on_proof);
  }

  void on_proof() {
    if (!token_->is_proof(part_, JobToken::Side::connects, facts(theirs_, nonce_))) {
      refuse(wrong_token_given());
      return;
    }
    // From here on the listener's own limits hold, as for who needs no token.
    limit_.cancel();
    answer_ =
        preamble(kTokenVersion) + token_->proof(JobToken::Side::accepts, facts(theirs_, nonce_));
    asio::async_write(socket_, asio::buffer(answer_),
                      [self = shared_from_this(), this](error_code failed, std::size_t) {
                        if (!over_) {
                          part_.clear();
                          finish(failed ? Who::gone : Who::member);
                        }
                      });
  }

  /// The other side may have sent more already, and to close a socket with unread bytes may destroy
  /// the answer on its way: so a connection sends it, which reads on for a while.
  void refuse(const TokenRefusal& why) {
    ConnectionOptions how;
    how.expect_preamble = false;
    refusal_ = Connection::create(io_, take_socket(), how, *this);
    refusal_->start();
    refusal_->send(preamble() + encode(message::Rejected{why.why, why.todo}));
    refusal_->close_after_flush();
    limit_.cancel();
    tell({Who::refused, {}, why.why});
  }

  void on_message(std::uint64_t /*id*/, message::Message /*said*/) override {}
  void on_no_preamble(std::uint64_t, PreambleCheck, std::string) override {}
  void on_ended(std::uint64_t, const CloseReason&) override {}

  asio::io_context& io_;
  asio::steady_timer limit_;
  bool opening_ = true;
  std::string theirs_;  ///< the nonce of who has connected
  std::string nonce_;
  std::string answer_;
  std::shared_ptr<Connection> refusal_;  ///< while the other side may read it
};

/// Of who connects. It has no timer: its owner closes a connection on which nothing comes.
class Proving final : public Exchange {
 public:
  using Exchange::Exchange;

 private:
  void start() override {
    nonce_ = random_nonce();
    say(preamble(kTokenVersion) + nonce_);
    read(kPreambleBytes, &Proving::on_nonce_begins);
  }

  /// Where the agent does not go on with the proof, it says why after a plain preamble: its owner
  /// reads on there, as if no token had been given.
  bool is_of_proof() {
    if (check_preamble(part_).version == kTokenVersion) {
      return true;
    }
    finish(Who::other);
    return false;
  }

  void on_nonce_begins() {
    if (is_of_proof()) {
      read(kTokenNonceBytes, &Proving::on_nonce);
    }
  }

  void on_nonce() {
    theirs_ = std::exchange(part_, {});
    say(token_->proof(JobToken::Side::connects, facts(nonce_, theirs_)));
    read(kPreambleBytes, &Proving::on_proof_begins);
  }

  void on_proof_begins() {
    if (is_of_proof()) {
      read(kTokenProofBytes, &Proving::on_proof);
    }
  }

  /// Only now does this agent say who it is: a program that took the endpoint's port would
  /// otherwise be told the whole description of the node.
  void on_proof() {
    const bool right = token_->is_proof(part_, JobToken::Side::accepts, facts(nonce_, theirs_));
    part_.clear();
    finish(right ? Who::member : Who::impostor);
  }

  std::string nonce_;
  std::string theirs_;  ///< the agent's nonce
};

template <class Side>
TokenExchange begin(asio::io_context& io, Fd socket, const net::Address& agents_end,
                    std::shared_ptr<const JobToken> token, TokenExchangeOwner& owner,
                    std::uint64_t id) {
  auto exchange = std::make_shared<Side>(io, std::move(token), owner, id);
  exchange->begin(std::move(socket), agents_end);
  return {exchange.get(), [exchange](void*) { exchange->cancel(); }};
}

}  // namespace

TokenExchange ask_for_token(asio::io_context& io, Fd socket, std::shared_ptr<const JobToken> token,
                            TokenExchangeOwner& owner, std::uint64_t id) {
  const net::Address end = net::local_end(socket.get());
  return begin<Asking>(io, std::move(socket), end, std::move(token), owner, id);
}

TokenExchange prove_token(asio::io_context& io, Fd socket, std::shared_ptr<const JobToken> token,
                          TokenExchangeOwner& owner, std::uint64_t id) {
  const net::Address end = net::far_end(socket.get());
  return begin<Proving>(io, std::move(socket), end, std::move(token), owner, id);
}

}  // namespace ddprun
