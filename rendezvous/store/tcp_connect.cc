#include "rendezvous/store/tcp_connect.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace ddprun {

using Clock = std::chrono::steady_clock;

namespace {

/// Milliseconds for poll(), rounded up; 0 when the deadline has passed.
int poll_time(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

}  // namespace

bool wait_ready(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, poll_time(deadline));
    if (ready > 0 || (ready < 0 && errno != EINTR)) {
      return true;
    }
    if (ready == 0 && Clock::now() >= deadline) {
      return false;
    }
  }
}

std::string address_text(const addrinfo& info) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  ::getnameinfo(info.ai_addr, info.ai_addrlen, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  const std::string text = host;
  return (text.find(':') != std::string::npos ? "[" + text + "]" : text) + ":" + port;
}

int try_connect(const addrinfo& info, Clock::time_point deadline, Fd& socket) {
  Fd fd(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return errno;
  }
  if (::connect(fd.get(), info.ai_addr, info.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) {
      return errno;
    }
    if (!wait_ready(fd.get(), POLLOUT, deadline)) {
      return ETIMEDOUT;
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      return error;
    }
  }
  // Nagle's wait for the acknowledgement of the piece before would cost 40 ms a request.
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  socket = std::move(fd);
  return 0;
}

}  // namespace ddprun
