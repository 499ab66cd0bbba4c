#include "launcher/ctl/blocking_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "rendezvous/control/tls_words.h"

namespace ddprun {
namespace {

/// The request is short, but the agent may not take it: then its buffer is full at some point.
int send_bytes(int fd, std::string_view bytes, net::Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return errno;
    } else if (!net::wait_ready(fd, POLLOUT, deadline)) {
      return ETIMEDOUT;
    }
  }
  return 0;
}

/// 0 and no byte: the end. An agent that is stopped sends nothing, and its kernel keeps the
/// connection: so each wait has the deadline of the whole question.
int receive_bytes(int fd, net::Deadline deadline, std::string& bytes) {
  std::array<char, 16 * 1024> buffer;
  for (;;) {
    if (!net::wait_ready(fd, POLLIN, deadline)) {
      return ETIMEDOUT;
    }
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got >= 0) {
      bytes.assign(buffer.data(), static_cast<std::size_t>(got));
      return 0;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return errno;
    }
  }
}

}  // namespace

int send_all(Channel& channel, std::string_view text, net::Deadline deadline) {
  if (!channel.tls) {
    return send_bytes(channel.socket.get(), text, deadline);
  }
  channel.tls->send(text);
  return send_bytes(channel.socket.get(), channel.tls->take_output(), deadline);
}

/// A record may come in several parts. What came before a failure is text of the other side's, and
/// counts; the failure shows at the next call.
int receive_some(Channel& channel, net::Deadline deadline) {
  const std::size_t had = channel.unread.size();
  std::string bytes;
  do {
    if (const int failed = receive_bytes(channel.socket.get(), deadline, bytes); failed != 0) {
      return failed;
    }
    if (!channel.tls) {
      channel.unread += bytes;
      return 0;
    }
    channel.tls->receive(bytes, channel.unread);
    if (channel.unread.size() == had && !channel.tls->failure().empty()) {
      return EPROTO;
    }
  } while (!bytes.empty() && channel.unread.size() == had && !channel.tls->is_closed());
  return 0;
}

/// An agent without TLS answers in plain text why it does not go on.
int shake_hands(Channel& channel, net::Deadline deadline) {
  constexpr char kAlert = '\x15';
  TlsSession& tls = *channel.tls;
  bool speaks_tls = false;
  while (!tls.is_established()) {
    if (const int failed = send_bytes(channel.socket.get(), tls.take_output(), deadline);
        failed != 0) {
      return failed;
    }
    std::string bytes;
    if (const int failed = receive_bytes(channel.socket.get(), deadline, bytes); failed != 0) {
      return failed;
    }
    if (bytes.empty()) {
      return ECONNRESET;
    }
    speaks_tls = speaks_tls || is_tls_hello(bytes) || bytes.front() == kAlert;
    if (!speaks_tls) {
      channel.unread = bytes;
      return EPROTO;
    }
    tls.receive(bytes, channel.unread);
    if (!tls.failure().empty()) {
      (void)send_bytes(channel.socket.get(), tls.take_output(), deadline);
      return EPROTO;
    }
  }
  return send_bytes(channel.socket.get(), tls.take_output(), deadline);
}

}  // namespace ddprun
