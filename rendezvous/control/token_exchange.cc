#include "rendezvous/control/token_exchange.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <utility>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/byte_stream.h"
#include "rendezvous/control/tls_words.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Who = AuthenticationOutcome::Who;

/// An agent speaks first, at once, and answers at once.
constexpr std::chrono::milliseconds kPatience{5'000};

// Parts have known sizes, and nothing is read beyond them: the first byte after the exchange
// belongs to the connection that goes on with the socket.

/// What both sides do: they say a part, and read one of known size.
class Exchange : public std::enable_shared_from_this<Exchange>, private ByteStreamOwner {
 public:
  using Next = void (Exchange::*)();

  Exchange(asio::io_context& io, std::shared_ptr<const JobToken> token, AuthenticationOwner& owner,
           std::uint64_t id)
      : io_(io), token_(std::move(token)), owner_(owner), id_(id) {}
  ~Exchange() override = default;

  /// An outcome comes later, never from inside of this.
  void begin(Channel channel, const net::Address& agents_end) {
    place_ = token_place(agents_end.host(), agents_end.port());
    stream_ = ByteStream::create(io_, std::move(channel), *this);
    start();
  }

  virtual void cancel() {
    over_ = true;
    stream_->close();
  }

 protected:
  virtual void start() = 0;
  /// Whether these bytes begin a part that is waited for; more of it may follow. A stranger is to
  /// be known at its first wrong byte: it may wait for an answer to fewer bytes than a part has.
  virtual bool fits(const std::string& /*so_far*/) { return true; }
  /// What it says otherwise.
  virtual void on_misfit() { finish(Who::other); }

  /// Until `size` bytes are in `part_`.
  template <class Side>
  void read(std::size_t size, void (Side::*next)()) {
    part_.clear();
    size_ = size;
    next_ = static_cast<Next>(next);
    stream_->read_some(size);
  }

  /// The first part may be shorter than asked for, and is looked at as it comes.
  void on_bytes(std::string bytes) override {
    const auto alive = shared_from_this();
    part_ += bytes;
    if (!fits(part_)) {
      on_misfit();
    } else if (part_.size() < size_) {
      stream_->read_some(size_ - part_.size());
    } else {
      (this->*next_)();
    }
  }

  /// Over TLS a listener says so that it does not trust the certificate that it was shown.
  void on_stream_end(const StreamEnd& end) override {
    const auto alive = shared_from_this();
    by_reset_ = end.by_reset;
    if (end.failure.empty()) {
      finish(Who::gone);
    } else {
      tell({Who::distrusted, {}, not_of_this_job(end.failure)});
    }
  }

  /// What cannot be written shows where the answer is read. A part is smaller than any socket's
  /// buffer, so it is gone before the next one is said.
  void say(const std::string& bytes) { stream_->write(bytes); }

  /// What the other side has said beyond the part stays unread in the channel, plain or decrypted.
  void finish(Who who) {
    Channel channel;
    if (who != Who::gone) {
      channel = stream_->release();
    }
    const bool whole = static_cast<bool>(channel);
    tell({whole ? who : Who::gone, std::move(channel), std::move(part_), by_reset_});
  }

  void tell(AuthenticationOutcome outcome) {
    if (!over_) {
      Exchange::cancel();
      owner_.on_authenticated(id_, std::move(outcome));
    }
  }

  [[nodiscard]] JobToken::Facts facts(std::string_view a, std::string_view b) const {
    return {a, b, place_};
  }

  asio::io_context& io_;
  std::shared_ptr<const JobToken> token_;
  std::shared_ptr<ByteStream> stream_;
  std::string part_;  ///< that was read last
  bool over_ = false;

 private:
  AuthenticationOwner& owner_;
  std::uint64_t id_;
  std::string place_;
  std::size_t size_ = 0;  ///< of the part that is read
  Next next_ = nullptr;
  bool by_reset_ = false;
};

/// Of the agent that has been connected to.
class Asking final : public Exchange {
 public:
  Asking(asio::io_context& io, std::shared_ptr<const JobToken> token, AuthenticationOwner& owner,
         std::uint64_t id)
      : Exchange(io, std::move(token), owner, id), limit_(io) {}

  void cancel() override {
    Exchange::cancel();
    limit_.cancel();
    refusal_.reset();
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

  /// An agent with TLS hears in plain text that the job has none.
  void on_misfit() override {
    if (is_tls_hello(part_)) {
      refuse(tls_is_not_spoken());
    } else {
      finish(Who::other);
    }
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
    say(preamble(kTokenVersion) + token_->proof(JobToken::Side::accepts, facts(theirs_, nonce_)));
    part_.clear();
    finish(Who::member);
  }

  /// The other side may have sent more already, which is read and dropped.
  void refuse(const TokenRefusal& why) {
    if (Channel channel = stream_->release()) {
      refusal_ = say_last(io_, std::move(channel),
                          preamble() + encode(message::Rejected{why.why, why.todo}));
    }
    limit_.cancel();
    tell({Who::refused, {}, why.why});
  }

  asio::steady_timer limit_;
  bool opening_ = true;
  std::string theirs_;  ///< the nonce of who has connected
  std::string nonce_;
  std::shared_ptr<void> refusal_;  ///< while the other side may read it
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
Authentication begin(asio::io_context& io, Channel channel, const net::Address& agents_end,
                     std::shared_ptr<const JobToken> token, AuthenticationOwner& owner,
                     std::uint64_t id) {
  auto exchange = std::make_shared<Side>(io, std::move(token), owner, id);
  exchange->begin(std::move(channel), agents_end);
  return {exchange.get(), [exchange](void*) { exchange->cancel(); }};
}

}  // namespace

Authentication ask_for_token(asio::io_context& io, Channel channel,
                             std::shared_ptr<const JobToken> token, AuthenticationOwner& owner,
                             std::uint64_t id) {
  const net::Address end = net::local_end(channel.socket.get());
  return begin<Asking>(io, std::move(channel), end, std::move(token), owner, id);
}

Authentication prove_token(asio::io_context& io, Channel channel,
                           std::shared_ptr<const JobToken> token, AuthenticationOwner& owner,
                           std::uint64_t id) {
  const net::Address end = net::far_end(channel.socket.get());
  return begin<Proving>(io, std::move(channel), end, std::move(token), owner, id);
}

}  // namespace ddprun
