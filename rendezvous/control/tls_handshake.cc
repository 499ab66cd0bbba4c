#include "rendezvous/control/tls_handshake.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <utility>

#include "rendezvous/control/byte_stream.h"
#include "rendezvous/control/handshake_limits.h"
#include "rendezvous/control/handshake_turns.h"
#include "rendezvous/control/job_tls.h"
#include "rendezvous/control/tls_words.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Who = AuthenticationOutcome::Who;

/// A record at most, with its header (RFC 8446, 5.1).
constexpr std::size_t kHeaderBytes = 5;
constexpr std::size_t kRecordBytesMax = kHeaderBytes + 16 * 1'024;

/// A session costs some 30 KB, so a stranger gets one for a whole hello, and not for its begin.
bool is_whole_record(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) {
    return false;
  }
  const auto byte = [bytes](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const std::size_t length = static_cast<std::size_t>(byte(3)) << 8U | byte(4);
  return bytes.size() >= kHeaderBytes + length || bytes.size() >= kRecordBytesMax;
}

/// What both sides do. The stream is a plain one: here are the bytes of TLS itself.
class Handshake : public std::enable_shared_from_this<Handshake>, private ByteStreamOwner {
 public:
  Handshake(asio::io_context& io, JobTls& tls, AuthenticationOwner& owner, std::uint64_t id)
      : io_(io), tls_(tls), owner_(owner), id_(id) {}
  ~Handshake() override = default;

  void begin(Fd socket) {
    stream_ = ByteStream::create(io_, std::move(socket), *this);
    start();
    stream_->read_some(kRecordBytesMax);
  }

  virtual void cancel() {
    over_ = true;
    stream_->close();
    refusal_.reset();
  }

 protected:
  virtual void start() = 0;
  virtual void take(std::string bytes) = 0;
  virtual void failed() = 0;

  void open(TlsSide side) { session_ = std::make_unique<TlsSession>(tls_.newest(), side); }

  /// Bytes of the handshake, and what came right behind it: an agent says hello together with its
  /// last part of the handshake, and both may arrive at once.
  void go_on(std::string_view bytes) {
    session_->receive(bytes, plain_);
    if (!session_->failure().empty() || session_->is_closed()) {
      failed();
      return;
    }
    say();
    if (session_->is_established()) {
      Channel channel = stream_->release();
      const bool whole = static_cast<bool>(channel);
      channel.tls = std::move(session_);
      channel.unread = std::move(plain_);
      tell({whole ? Who::member : Who::gone, std::move(channel)});
    } else {
      stream_->read_some(kRecordBytesMax);
    }
  }

  void say() {
    const std::string output = session_->take_output();
    answered_ = answered_ || !output.empty();
    stream_->write(output);
  }

  /// Once: a timer and a read may be due in one turn of the loop.
  void tell(AuthenticationOutcome outcome) {
    if (!std::exchange(over_, true)) {
      finished();
      owner_.on_authenticated(id_, std::move(outcome));
    }
  }
  virtual void finished() {}

  /// With what is wrong about this side's own files: an old certificate may be the reason.
  [[nodiscard]] std::string why() const {
    const std::string& stale = tls_.stale();
    const std::string& failure = session_->failure();
    return (failure.empty() ? "it ended TLS" : failure) + (stale.empty() ? "" : "; and " + stale);
  }

  void on_bytes(std::string bytes) override {
    const auto alive = shared_from_this();
    take(std::move(bytes));
  }

  void on_stream_end(const StreamEnd& end) override {
    const auto alive = shared_from_this();
    tell({Who::gone, {}, {}, end.by_reset});
  }

  asio::io_context& io_;
  std::shared_ptr<ByteStream> stream_;
  std::unique_ptr<TlsSession> session_;
  std::shared_ptr<void> refusal_;  ///< while the other side may read it
  bool answered_ = false;          ///< this side has said something
  bool over_ = false;

 private:
  JobTls& tls_;
  AuthenticationOwner& owner_;
  std::uint64_t id_;
  std::string plain_;  ///< behind the handshake
};

class Accepting final : public Handshake, private HandshakeTurn {
 public:
  Accepting(asio::io_context& io, JobTls& tls, AuthenticationOwner& owner, std::uint64_t id)
      : Handshake(io, tls, owner, id), limit_(io) {
    if (!tls.turns()) {
      tls.turns() = std::make_shared<HandshakeTurns>(io);
    }
    turns_ = tls.turns();
  }

  void cancel() override {
    Handshake::cancel();
    limit_.cancel();
  }

 private:
  /// One limit for all of it: who sends a byte a second holds a place no longer than who is silent.
  void start() override {
    limit_.expires_after(kHelloTimeout);
    limit_.async_wait([self = shared_from_this(), this](boost::system::error_code cancelled) {
      if (!cancelled && !over_) {
        tell_other();
      }
    });
  }
  void finished() override { limit_.cancel(); }

  void take(std::string bytes) override {
    if (session_) {
      go_on(bytes);
      return;
    }
    first_ += bytes;
    if (!is_tls_hello(first_)) {
      take_plain();
    } else if (is_whole_record(first_)) {
      turns_->wait(std::shared_ptr<HandshakeTurn>(shared_from_this(), this));
    } else {
      stream_->read_some(kRecordBytesMax);
    }
  }

  /// The answer to a hello is signed, which costs most of a handshake. Nothing was read while it
  /// waited for its turn, so who has gone meanwhile is seen here.
  void on_turn() override {
    if (!over_ && stream_->has_ended()) {
      tell({Who::gone});
    } else if (!over_) {
      open(TlsSide::accepts);
      go_on(std::exchange(first_, first_.substr(0, kHeaderBytes)));
      // A hello is one record. One that claims to go on would have as much memory as it likes.
      if (!over_ && !answered_) {
        tell_other();
      }
    }
  }

  /// An agent without TLS says its preamble, whether it has a token or not.
  void take_plain() {
    const PreambleCheck check = check_preamble(first_);
    if (check.verdict == PreambleVerdict::stranger) {
      tell_other();
      return;
    }
    if (check.verdict == PreambleVerdict::incomplete) {
      stream_->read_some(kRecordBytesMax);
      return;
    }
    const bool same = (check.version & ~kTokenVersionBit) == kProtocolVersion;
    const TokenRefusal why = same ? tls_is_missing() : refusal_of(check.version, false);
    refuse(preamble() + encode(message::Rejected{why.why, why.todo}), why.why);
  }

  /// What it said goes with it: a client of the store has begun a question by then.
  void tell_other() { tell({Who::other, stream_->release(), first_}); }

  /// The alert tells the other side the reason.
  void failed() override { refuse(session_->take_output(), why()); }

  /// Its own last bytes may still come, and are read: a reset would take the reason away.
  void refuse(const std::string& last_words, const std::string& why) {
    if (Channel channel = stream_->release()) {
      refusal_ = say_last(io_, std::move(channel), last_words);
    }
    tell({Who::refused, {}, why});
  }

  asio::steady_timer limit_;
  std::shared_ptr<HandshakeTurns> turns_;
  std::string first_;  ///< before there is a session; then the header of the first record
};

/// It has no timer: its owner closes a connection on which nothing comes.
class Connecting final : public Handshake {
 public:
  using Handshake::Handshake;

 private:
  /// Who connects speaks first.
  void start() override {
    open(TlsSide::connects);
    say();
  }

  /// A listener without TLS answers in its own words: an agent's are a refusal in plain text, and
  /// those of another program tell what it is.
  void take(std::string bytes) override {
    constexpr char kAlert = '\x15';
    if (heard_ || is_tls_hello(bytes) || bytes.front() == kAlert) {
      heard_ = true;
      go_on(bytes);
      return;
    }
    Channel channel = stream_->release();
    channel.unread = std::move(bytes);
    tell({Who::other, std::move(channel)});
  }

  /// With the alert, by which the other side can tell its people.
  void failed() override {
    say();
    const std::string clause = not_of_this_job(why());
    stream_->close();
    // A certificate is for people to mend. Anything else a program that took the port may have
    // said.
    tell({session_->failed_by_certificate() ? Who::distrusted : Who::garbled, {}, clause});
  }

  bool heard_ = false;  ///< the other side speaks TLS
};

template <class Side>
Authentication begin(asio::io_context& io, Fd socket, JobTls& tls, AuthenticationOwner& owner,
                     std::uint64_t id) {
  auto handshake = std::make_shared<Side>(io, tls, owner, id);
  handshake->begin(std::move(socket));
  return {handshake.get(), [handshake](void*) { handshake->cancel(); }};
}

}  // namespace

Authentication accept_tls(asio::io_context& io, Fd socket, JobTls& tls, AuthenticationOwner& owner,
                          std::uint64_t id) {
  return begin<Accepting>(io, std::move(socket), tls, owner, id);
}

Authentication connect_tls(asio::io_context& io, Fd socket, JobTls& tls, AuthenticationOwner& owner,
                           std::uint64_t id) {
  return begin<Connecting>(io, std::move(socket), tls, owner, id);
}

}  // namespace ddprun
