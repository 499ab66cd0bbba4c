#include "rendezvous/control/connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;

// Bytes and the end of a connection. Beats and timers are in connection_heartbeat.cc. Each handler
// holds a shared pointer, so an owner may let go of a connection inside of a call from it.

constexpr std::size_t kReadBytes = 16 * 1024;
/// Of TLS, without a word in them: more than a record that is not complete has (RFC 8446, 5.2).
constexpr std::size_t kWordlessBytesMax = 2 * kReadBytes;
/// Reads in one turn of the loop, so that a flood on one connection does not starve the others.
constexpr int kReadsPerTurn = 16;

std::string broke(int errno_value) {
  return std::string("its connection broke: ") + std::strerror(errno_value);
}

}  // namespace

std::shared_ptr<Connection> Connection::create(asio::io_context& io, Channel channel,
                                               ConnectionOptions options,
                                               ConnectionHandler& handler, std::uint64_t id) {
  std::string unread = std::move(channel.unread);
  std::shared_ptr<Connection> made(new Connection(io, std::move(channel), options, handler, id));
  // Nothing was read yet, and its owner cannot have started it.
  made->preamble_ = std::move(unread);
  return made;
}

Connection::Connection(asio::io_context& io, Channel channel, ConnectionOptions options,
                       ConnectionHandler& handler, std::uint64_t id)
    : options_(options),
      handler_(handler),
      id_(id),
      socket_(io),
      timer_(io),
      tls_(std::move(channel.tls)),
      reader_(options.frame_bytes_max),
      heard_at_(Clock::now()),
      preamble_pending_(options.expect_preamble) {
  if (options_.beats) {
    lease_ =
        std::make_unique<FollowerLease>(options_.heartbeat_timeout, heard_at_.time_since_epoch());
  }
  const int socket = channel.socket.get();
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
  // epoll may have no room for the socket. start() reports that, as the end of the connection.
  boost::system::error_code failed;
  socket_.assign(socket, failed);
  if (!failed) {
    (void)channel.socket.release();
  }
}

void Connection::start() {
  if (!socket_.is_open()) {
    end("its socket cannot be watched");
    return;
  }
  if (preamble_pending_) {
    arm_timer();
  } else {
    begin_heartbeat();
  }
  if (preamble_.empty()) {
    wait_readable();
    return;
  }
  // What came right behind a handshake, and was left there by create(). Later, as all that is read.
  asio::post(timer_.get_executor(),
             [self = shared_from_this(), bytes = std::exchange(preamble_, {})] {
               if (!self->over_) {
                 self->take_unread(bytes);
               }
             });
}

void Connection::take_unread(const std::string& bytes) {
  if (!lingering_) {
    take_bytes(bytes);
  }
  if (!over_) {
    wait_readable();
  }
}

int Connection::native_handle() {
  return socket_.native_handle();
}

// --- Reading --------------------------------------------------------------------------------

void Connection::wait_readable() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](boost::system::error_code failed) {
                       if (!failed && !self->over_) {
                         self->on_readable();
                       }
                     });
}

void Connection::on_readable() {
  // No buffer per connection: thousands of them are idle, and one is read at a time.
  std::array<char, kReadBytes> buffer;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t size = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
      break;
    }
    if (size <= 0) {
      // 0 is the peer's FIN: its kernel sends it after all that the peer said, and as the process
      // dies.
      by_reset_ = size < 0 && errno == ECONNRESET;
      end(size == 0 ? "its connection closed" : broke(errno), {}, size == 0);
      return;
    }
    // Any byte is a sign of life, a part of a frame too: a long frame takes more than one beat.
    if (!tls_) {
      note_life();
    }
    if (!lingering_) {
      const std::string_view bytes(buffer.data(), static_cast<std::size_t>(size));
      tls_ ? decrypt(bytes) : take_bytes(bytes);
    }
    if (over_) {
      return;
    }
    if (reads_to_heard_ > 0 && --reads_to_heard_ == 0) {
      handler_.on_heard(id_);
    }
    if (over_) {
      return;
    }
    if (static_cast<std::size_t>(size) < buffer.size()) {
      break;  // a short read means that the socket is empty; the wait looks again
    }
  }
  wait_readable();
}

/// Who connects has a time for its preamble as a whole, however it is said.
void Connection::note_life() {
  if (!preamble_pending_) {
    heard_at_ = Clock::now();
  }
}

/// A record is complete or waits in the session. Another process cannot have sent what does not
/// decrypt, unless it changes packets on their way: this side lives, and gives the connection up.
void Connection::decrypt(std::string_view bytes) {
  std::string plain;
  tls_->receive(bytes, plain);
  const std::string answer = tls_->take_output();  // to a new key, or an alert
  if (!answer.empty()) {
    write(answer);
  }
  // New keys say nothing, and each costs an answer: a flood of them would keep this agent from
  // others.
  wordless_bytes_ = plain.empty() ? wordless_bytes_ + bytes.size() : 0;
  if (!over_ && wordless_bytes_ > kWordlessBytesMax) {
    end("it sent nothing but new keys of TLS");
  }
  if (!over_ && !plain.empty()) {
    note_life();
    take_bytes(plain);
  }
  if (!over_ && tls_ && (!tls_->failure().empty() || tls_->is_closed())) {
    end("its connection broke: " + (tls_->is_closed() ? "it ended TLS" : tls_->failure()));
  }
}

/// The preamble may come in pieces, and the first frames right behind it.
void Connection::take_bytes(std::string_view bytes) {
  if (preamble_pending_) {
    const std::size_t taken = std::min(kPreambleBytes - preamble_.size(), bytes.size());
    preamble_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const PreambleCheck check = check_preamble(preamble_);
    if (check.verdict == PreambleVerdict::incomplete) {
      return;
    }
    if (check.verdict != PreambleVerdict::good) {
      handler_.on_no_preamble(id_, check, std::move(preamble_) + std::string(bytes));
      return;
    }
    preamble_pending_ = false;
    preamble_ = {};
    begin_heartbeat();
  }
  const bool sound = reader_.feed(bytes, [this](std::uint8_t type, std::string_view payload) {
    return take_frame(type, payload);
  });
  if (!sound) {
    end("it broke the protocol: a frame has an impossible length");
  }
}

/// False when nothing more is to be read.
bool Connection::take_frame(std::uint8_t type, std::string_view payload) {
  auto decoded = decode(type, payload);
  if (!decoded) {
    end("it broke the protocol: " + decoded.error().what);
    return false;
  }
  if (const auto* beat = std::get_if<message::Beat>(&*decoded)) {
    take_beat(*beat);
    // An Echo is for the side that answers beats. To the other one it is a message out of turn.
  } else if (const auto* echo = std::get_if<message::Echo>(&*decoded); echo != nullptr && !lease_) {
    echoed(echo->stamp);
  } else {
    handler_.on_message(id_, std::move(*decoded));
  }
  return !over_ && !lingering_;
}

// --- Writing --------------------------------------------------------------------------------

/// What the socket does not take at once is copied. A peer that reads nothing would take all memory
/// of a coordinator that way, so it is given up at a limit.
void Connection::send(std::string_view bytes) {
  if (over_ || lingering_ || !socket_.is_open()) {
    return;
  }
  if (tls_) {
    tls_->send(bytes);
    write(tls_->take_output());
  } else {
    write(bytes);
  }
}

/// What goes to the socket: text, or records.
void Connection::write(std::string_view bytes) {
  if (unsent_.bytes.empty()) {
    // The usual case: the socket takes it all, and nothing is copied. The wait below sees an error
    // again, so one place deals with it.
    const ssize_t size =
        ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (bytes.empty()) {
      return;
    }
  }
  if (unsent_.bytes.size() - unsent_.gone + bytes.size() > kWriteQueueBytesMax) {
    end("it does not read what it is sent");
    return;
  }
  unsent_.bytes += bytes;
  wait_writable();
}

void Connection::wait_writable() {
  if (unsent_.waiting) {
    return;
  }
  unsent_.waiting = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](boost::system::error_code failed) {
                       self->unsent_.waiting = false;
                       if (!failed && !self->over_) {
                         self->on_writable();
                       }
                     });
}

void Connection::on_writable() {
  const ssize_t size = ::send(socket_.native_handle(), unsent_.bytes.data() + unsent_.gone,
                              unsent_.bytes.size() - unsent_.gone, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (size < 0 && errno != EAGAIN && errno != EINTR) {
    // The reading side reports how the connection ended, and reads first what the peer said last.
    unsent_.gone = unsent_.bytes.size();
  }
  unsent_.gone += static_cast<std::size_t>(std::max<ssize_t>(size, 0));
  if (unsent_.gone < unsent_.bytes.size()) {
    wait_writable();
    return;
  }
  unsent_.bytes = {};
  unsent_.gone = 0;
  // Only the writing half is closed: to close a socket with unread bytes resets it (RFC
  // 2525, 2.17), and a reset may destroy the last message on the peer's side.
  if (lingering_) {
    ::shutdown(socket_.native_handle(), SHUT_WR);
  }
}

// --- The end --------------------------------------------------------------------------------

/// How this side closes is a statement about this process (docs/failover.md, the table of endings).
/// An orderly end means that it died, so only a peer that closed first is answered by one. A reset
/// means that it lives. An agent with keep_open_when_closed holds the socket: its workers may still
/// run.
void Connection::end(std::string why, std::chrono::nanoseconds silent_for, bool by_peer) {
  if (over_) {
    return;
  }
  if (options_.keep_open_when_closed) {
    if (!by_peer) {
      say_last_word();
    }
    hold();
  } else if (by_peer) {
    close();
  } else {
    close_by_reset();
  }
  // One call is still owed: not from inside of send(), whose caller may be in the middle of a step.
  silenced_ = false;
  asio::post(timer_.get_executor(),
             [self = shared_from_this(), why = std::move(why), silent_for, by_peer] {
               if (!self->silenced_) {
                 self->silenced_ = true;
                 self->handler_.on_ended(self->id_, {why, silent_for, by_peer, self->by_reset_});
               }
             });
}

/// A zero SO_LINGER (socket(7)): whenever the socket is closed, by whatever process, a reset goes
/// out.
void Connection::reset_when_closed() {
  const linger reset{1, 0};
  ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

void Connection::close_by_reset() {
  if (!over_) {
    reset_when_closed();
  }
  close();
}

/// With bytes in the queue a part of a frame has gone out, and the word would end up inside of it.
/// The reset says the same without a word.
void Connection::say_last_word() {
  reset_when_closed();
  if (!unsent_.bytes.empty()) {
    return;
  }
  std::string_view word = options_.last_word;
  std::string record;
  if (tls_) {
    tls_->send(word);
    record = tls_->take_output();
    word = record;
  }
  (void)::send(socket_.native_handle(), word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Connection::close() {
  silenced_ = true;
  if (over_) {
    return;
  }
  over_ = true;
  timer_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  unsent_.bytes = {};
}

void Connection::hold() {
  if (!over_ && socket_.is_open()) {
    held_ = release().socket;
  }
}

void Connection::close_after_flush() {
  if (over_ || lingering_) {
    return;
  }
  lingering_ = true;
  linger_ends_ = Clock::now() + kLingerMax;
  if (unsent_.bytes.empty()) {
    ::shutdown(socket_.native_handle(), SHUT_WR);
  }
  arm_timer();
}

Channel Connection::release() {
  silenced_ = true;
  if (over_) {
    return {};
  }
  over_ = true;
  timer_.cancel();
  Channel channel(Fd(socket_.release()));
  channel.tls = std::move(tls_);
  return channel;
}

}  // namespace ddprun
