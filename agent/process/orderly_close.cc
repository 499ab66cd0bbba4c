#include "agent/process/orderly_close.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "agent/process/process_tree.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

/// Of one socket in one turn, so that a peer that floods it does not hold up the others.
constexpr std::size_t kDroppedPerTurn = 1 << 20;

int option_of(int socket, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

/// What was inherited through exec belongs to others as well, and has no FD_CLOEXEC.
bool is_own(int fd) {
  const int flags = ::fcntl(fd, F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) != 0;
}

bool is_connection(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return option_of(fd, SO_PROTOCOL) == IPPROTO_TCP && option_of(fd, SO_ACCEPTCONN) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

bool is_to_be_reset(int socket) {
  linger how{};
  socklen_t size = sizeof how;
  return ::getsockopt(socket, SOL_SOCKET, SO_LINGER, &how, &size) == 0 && how.l_onoff != 0 &&
         how.l_linger == 0;
}

/// True once the peer has closed, or the connection is broken.
bool drop_what_came(int socket) {
  // MSG_TRUNC: of a TCP socket the bytes are dropped, not copied (tcp(7)).
  const ssize_t size = ::recv(socket, nullptr, kDroppedPerTurn, MSG_DONTWAIT | MSG_TRUNC);
  return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

void end_connections_in_order(std::chrono::milliseconds patience) {
  std::vector<pollfd> open;
  for (const int fd : numbers_in("/proc/self/fd")) {
    if (is_own(fd) && is_connection(fd) && !is_to_be_reset(fd)) {
      open.push_back({fd, POLLIN, 0});
    }
  }
  for (const pollfd& one : open) {
    ::shutdown(one.fd, SHUT_WR);
  }
  const auto deadline = Clock::now() + patience;
  while (!open.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const int ready = ::poll(open.data(), open.size(), std::max(0, static_cast<int>(left.count())));
    if (ready == 0 || (ready < 0 && errno != EINTR)) {
      return;
    }
    std::erase_if(open, [ready](const pollfd& one) {
      return ready > 0 && one.revents != 0 && drop_what_came(one.fd);
    });
  }
}

}  // namespace ddprun
