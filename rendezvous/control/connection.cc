#include "rendezvous/control/connection.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kReadBytes = 16 * 1024;
/// Reads in one turn of the loop, so that a flood on one connection does not starve the others.
constexpr int kReadsPerTurn = 16;

bool has_unread_bytes(int socket) {
  int bytes = 0;
  return ::ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

std::string broke(int errno_value) {
  return std::string("its connection broke: ") + std::strerror(errno_value);
}

}  // namespace

std::shared_ptr<Connection> Connection::create(asio::io_context& io, Fd socket,
                                               ConnectionOptions options,
                                               ConnectionHandler& handler, std::uint64_t id) {
  return std::shared_ptr<Connection>(new Connection(io, std::move(socket), options, handler, id));
}

Connection::Connection(asio::io_context& io, Fd socket, ConnectionOptions options,
                       ConnectionHandler& handler, std::uint64_t id)
    : options_(options),
      handler_(handler),
      id_(id),
      socket_(io),
      timer_(io),
      reader_(options.frame_bytes_max),
      heard_at_(Clock::now()),
      preamble_pending_(options.expect_preamble) {
  if (options_.beats) {
    lease_ =
        std::make_unique<FollowerLease>(options_.heartbeat_timeout, heard_at_.time_since_epoch());
  }
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  boost::system::error_code failed;
  socket_.assign(socket.get(), failed);
  if (!failed) {
    (void)socket.release();
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
  wait_readable();
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
      by_reset_ = size < 0 && errno == ECONNRESET;
      end(size == 0 ? "its connection closed" : broke(errno), {}, size == 0);
      return;
    }
    heard_at_ = Clock::now();
    if (!lingering_) {
      take_bytes({buffer.data(), static_cast<std::size_t>(size)});
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

void Connection::watch() {
  reads_to_heard_ = has_unread_bytes(socket_.native_handle()) ? 2 : 1;
}

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
  } else if (const auto* echo = std::get_if<message::Echo>(&*decoded); echo != nullptr && !lease_) {
    echoed(echo->stamp);
  } else {
    handler_.on_message(id_, std::move(*decoded));
  }
  return !over_ && !lingering_;
}

// --- Writing --------------------------------------------------------------------------------

void Connection::send(std::string_view bytes) {
  if (over_ || lingering_ || !socket_.is_open()) {
    return;
  }
  if (write_queue_.empty()) {
    // The usual case: the socket takes it all, and nothing is copied. An error shows again when
    // the wait below looks, so that it is dealt with at one place.
    const ssize_t size =
        ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (bytes.empty()) {
      return;
    }
  }
  if (write_queue_.size() - written_ + bytes.size() > kWriteQueueBytesMax) {
    end("it does not read what it is sent");
    return;
  }
  write_queue_ += bytes;
  wait_writable();
}

void Connection::wait_writable() {
  if (write_waiting_) {
    return;
  }
  write_waiting_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](boost::system::error_code failed) {
                       self->write_waiting_ = false;
                       if (!failed && !self->over_) {
                         self->on_writable();
                       }
                     });
}

void Connection::on_writable() {
  const ssize_t size = ::send(socket_.native_handle(), write_queue_.data() + written_,
                              write_queue_.size() - written_, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (size < 0 && errno != EAGAIN && errno != EINTR) {
    // The reading side tells how it ended, after what the peer may have said last.
    written_ = write_queue_.size();
  }
  written_ += static_cast<std::size_t>(std::max<ssize_t>(size, 0));
  if (written_ < write_queue_.size()) {
    wait_writable();
    return;
  }
  write_queue_ = {};
  written_ = 0;
  if (lingering_) {
    ::shutdown(socket_.native_handle(), SHUT_WR);
  }
}

// --- Time -----------------------------------------------------------------------------------

bool Connection::heart_beats() const {
  return !preamble_pending_ && options_.heartbeat_timeout.count() > 0;
}

void Connection::beat() {
  send(encode(
      message::Beat{options_.heartbeat_timeout, lease_->newest_stamp().count(), std::nullopt}));
}

std::int64_t Connection::stamp_now() {
  return Clock::now().time_since_epoch().count();
}

Connection::Clock::time_point Connection::time_of(std::int64_t stamp) {
  return Clock::time_point(Clock::duration(stamp));
}

void Connection::take_stamp(std::int64_t stamp, bool soon) {
  const Instant now = Clock::now().time_since_epoch();
  lease_->take_stamp(now, Instant(stamp));
  if (soon && heart_beats() && !over_) {
    lease_->quorum_needed_soon(now);
    arm_timer();
  }
}

void Connection::take_beat(const message::Beat& beat) {
  if (lease_) {
    if (lease_->answered(Clock::now().time_since_epoch(),
                         {beat.timeout, Instant(beat.stamp), beat.quorum_age})) {
      send(encode(message::Echo{beat.stamp}));
    }
  } else {
    answer(beat);
  }
  arm_timer();
}

void Connection::answer(const message::Beat& beat) {
  echoed(beat.stamp);
  send(encode(message::Beat{options_.heartbeat_timeout, stamp_now(), handler_.quorum_age()}));
}

void Connection::echoed(std::int64_t stamp) {
  if (stamp > 0) {
    handler_.on_echoed(id_, time_of(stamp));
  }
}

void Connection::begin_heartbeat() {
  heard_at_ = Clock::now();
  if (lease_) {
    lease_->begin(heard_at_.time_since_epoch(), options_.asked_at.time_since_epoch());
  }
  arm_timer();
}

void Connection::arm_timer() {
  auto due = Clock::time_point::max();
  if (lingering_) {
    due = linger_ends_;
  } else if (heart_beats()) {
    due = lease_ ? Clock::time_point(*lease_->due()) : heard_at_ + options_.heartbeat_timeout;
  } else if (preamble_pending_ && options_.preamble_timeout.count() > 0) {
    due = heard_at_ + options_.preamble_timeout;
  }
  if (over_ || due == Clock::time_point::max()) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(due);
  timer_.async_wait([self = shared_from_this()](boost::system::error_code failed) {
    if (!failed && !self->over_) {
      self->on_timer();
    }
  });
}

void Connection::on_timer() {
  const auto now = Clock::now();
  if (lingering_) {
    if (now >= linger_ends_) {
      end("it did not read its last message");
    }
  } else if (heart_beats()) {
    lease_ ? on_lease_timer(now) : on_silence_timer(now);
  } else if (preamble_pending_ && now - heard_at_ >= options_.preamble_timeout) {
    handler_.on_no_preamble(id_, {PreambleVerdict::incomplete, 0}, std::move(preamble_));
    return;
  }
  arm_timer();
}

void Connection::on_lease_timer(Clock::time_point now) {
  const bool unread = has_unread_bytes(socket_.native_handle());
  switch (lease_->time_passed(now.time_since_epoch(), unread)) {
    case FollowerLease::Step::wait:
    case FollowerLease::Step::look_again:  // the timer is due at once, and reading comes before it
      break;
    case FollowerLease::Step::beat:
      beat();
      break;
    case FollowerLease::Step::lost:
      fell_silent(lease_->silent_for(now.time_since_epoch()));
      break;
  }
}

void Connection::on_silence_timer(Clock::time_point now) {
  if (now - heard_at_ < options_.heartbeat_timeout) {
    return;
  }
  // Bytes that wait unread mean that this process itself was late, not the peer.
  if (!has_unread_bytes(socket_.native_handle())) {
    fell_silent(now - heard_at_);
    return;
  }
  heard_at_ = now;
}

void Connection::fell_silent(std::chrono::nanoseconds silent_for) {
  end("it was silent for " + seconds_text(silent_for), silent_for);
}

// --- The end --------------------------------------------------------------------------------

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
  silenced_ = false;  // one call is still owed
  asio::post(timer_.get_executor(),
             [self = shared_from_this(), why = std::move(why), silent_for, by_peer] {
               if (!self->silenced_) {
                 self->silenced_ = true;
                 self->handler_.on_ended(self->id_, {why, silent_for, by_peer, self->by_reset_});
               }
             });
}

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

void Connection::say_last_word() {
  reset_when_closed();
  if (write_queue_.empty()) {
    (void)::send(socket_.native_handle(), options_.last_word.data(), options_.last_word.size(),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
  }
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
  write_queue_ = {};
}

void Connection::hold() {
  if (!over_ && socket_.is_open()) {
    held_ = release();
  }
}

void Connection::close_after_flush() {
  if (over_ || lingering_) {
    return;
  }
  lingering_ = true;
  linger_ends_ = Clock::now() + kLingerMax;
  if (write_queue_.empty()) {
    ::shutdown(socket_.native_handle(), SHUT_WR);
  }
  arm_timer();
}

Fd Connection::release() {
  DDP_CHECK(!over_, "a connection that is over has no socket to hand over");
  silenced_ = true;
  over_ = true;
  timer_.cancel();
  return Fd(socket_.release());
}

}  // namespace ddprun
