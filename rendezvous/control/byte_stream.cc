#include "rendezvous/control/byte_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <optional>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/socket.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Socket = asio::posix::stream_descriptor;

/// A record of TLS at most, with its header.
constexpr std::size_t kReceiveBytes = 17 * 1'024;

/// Handlers hold a shared pointer, so the owner may let go of it inside of a call from it.
class WatchedStream final : public ByteStream, public std::enable_shared_from_this<WatchedStream> {
 public:
  WatchedStream(asio::io_context& io, Channel channel, ByteStreamOwner& owner)
      : owner_(owner), channel_(std::move(channel)), socket_(io) {
    boost::system::error_code failed;
    socket_.assign(channel_.socket.get(), failed);
    if (!failed) {  // else epoll has no room for it, and the first read says so
      (void)channel_.socket.release();
    }
  }

  /// What is there already is told later, as what comes from the network is: the owner is in the
  /// middle of a step.
  void read_some(std::size_t most) override {
    DDP_CHECK(most > 0 && most_ == 0, "one reads at a time");
    most_ = most;
    if (!channel_.unread.empty() || !socket_.is_open()) {
      asio::post(socket_.get_executor(), [self = shared_from_this()] { self->look(); });
    } else {
      wait_readable();
    }
  }

  void write(std::string_view bytes) override {
    if (!channel_.tls) {
      queue_ += bytes;
    } else {
      channel_.tls->send(bytes);
      queue_ += channel_.tls->take_output();
    }
    write_queue();
  }

  void finish_writing() override {
    finishing_ = true;
    if (queue_.empty() && socket_.is_open()) {
      ::shutdown(socket_.native_handle(), SHUT_WR);
    }
  }

  /// Whatever goes on with the channel has a queue of its own, and what waits here would come after
  /// it. A part of a handshake is smaller than any socket's buffer, so nothing does.
  Channel release() override {
    over_ = true;
    if (!socket_.is_open() || !queue_.empty()) {
      close();
      return {};
    }
    channel_.socket = Fd(socket_.release());
    return std::move(channel_);
  }

  void close() override {
    over_ = true;
    boost::system::error_code ignored;
    socket_.close(ignored);
    channel_ = {};
  }

  bool has_ended() override { return net::has_ended(socket_.native_handle()); }

 private:
  void wait_readable() {
    socket_.async_wait(Socket::wait_read,
                       [self = shared_from_this()](boost::system::error_code failed) {
                         if (!failed) {
                           self->look();
                         }
                       });
  }

  void look() {
    if (over_) {
      return;
    }
    if (channel_.unread.empty()) {
      receive();
    } else {
      tell();
    }
  }

  /// In plain text no byte more than was asked for: what follows is another's.
  void receive() {
    std::array<char, kReceiveBytes> buffer;
    const std::size_t room = channel_.tls ? buffer.size() : std::min(most_, buffer.size());
    const ssize_t size = ::recv(socket_.native_handle(), buffer.data(), room, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
      wait_readable();
      return;
    }
    if (size <= 0) {
      // The kernel reports a reset once. If a write meets it, the read sees an orderly end.
      end({(size < 0 && errno == ECONNRESET) || write_failed_, {}});
      return;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(size));
    if (channel_.tls) {
      decrypt(bytes);
    } else {
      channel_.unread = bytes;
    }
    if (!over_) {
      channel_.unread.empty() ? wait_readable() : tell();
    }
  }

  /// A record that is not complete waits in the session. Text that came before a failure is told
  /// first: a refusal may be in it.
  void decrypt(std::string_view bytes) {
    TlsSession& tls = *channel_.tls;
    tls.receive(bytes, channel_.unread);
    queue_ += tls.take_output();  // an alert, or the answer to a new key
    write_queue();
    if (channel_.unread.empty() && !tls.failure().empty()) {
      end({false, tls.failure()});
    } else if (channel_.unread.empty() && tls.is_closed()) {
      end({});
    }
  }

  void tell() {
    const std::size_t size = std::min(std::exchange(most_, 0), channel_.unread.size());
    std::string bytes = channel_.unread.substr(0, size);
    channel_.unread.erase(0, size);
    owner_.on_bytes(std::move(bytes));
  }

  /// The other side may have said all that it wanted, and still read what is written to it.
  void end(const StreamEnd& how) {
    if (finishing_ && !queue_.empty() && !write_failed_) {
      late_end_ = how;
      return;
    }
    over_ = true;
    owner_.on_stream_end(how);
  }

  /// A hello of a voter has up to 1 MiB, more than a socket takes at once.
  void write_queue() {
    if (queue_.empty() || write_waiting_ || !socket_.is_open()) {
      return;
    }
    const ssize_t size = ::send(socket_.native_handle(), queue_.data() + queue_gone_,
                                queue_.size() - queue_gone_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size < 0 && errno != EAGAIN && errno != EINTR) {
      write_failed_ = true;
      queue_.clear();
      queue_gone_ = 0;
      tell_late_end();
      return;
    }
    queue_gone_ += static_cast<std::size_t>(std::max<ssize_t>(size, 0));
    if (queue_gone_ == queue_.size()) {
      queue_.clear();
      queue_gone_ = 0;
      finishing_ ? finish_writing() : void();
      tell_late_end();
      return;
    }
    write_waiting_ = true;
    socket_.async_wait(Socket::wait_write,
                       [self = shared_from_this()](boost::system::error_code failed) {
                         self->write_waiting_ = false;
                         if (!failed && !self->over_) {
                           self->write_queue();
                         }
                       });
  }

  /// Whoever says that nothing more is written writes no more: so this is no call from inside of
  /// its own.
  void tell_late_end() {
    if (late_end_) {
      end(*std::exchange(late_end_, std::nullopt));
    }
  }

  ByteStreamOwner& owner_;
  Channel channel_;  ///< without its socket, which is the next
  Socket socket_;
  std::size_t most_ = 0;               ///< that are waited for
  std::string queue_;                  ///< what the socket did not take yet
  std::size_t queue_gone_ = 0;         ///< of it, at its front
  bool finishing_ = false;             ///< after the queue comes the end
  std::optional<StreamEnd> late_end_;  ///< of reading, to be told after the queue
  bool write_waiting_ = false;
  bool write_failed_ = false;
  bool over_ = false;  ///< the owner wants no more calls
};

}  // namespace

std::shared_ptr<ByteStream> ByteStream::create(asio::io_context& io, Channel channel,
                                               ByteStreamOwner& owner) {
  return std::make_shared<WatchedStream>(io, std::move(channel), owner);
}

}  // namespace ddprun
