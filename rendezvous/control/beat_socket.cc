#include "rendezvous/control/beat_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ddprun {

void prepare_beat_socket(int fd) {
  // Asio opens sockets without it, and by it the guardian knows the agent's own connections.
  (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // Others, bbr among them, never leave what the kernel takes for a connection's first slow start,
  // in which it knows no thin streams. Every kernel has reno and lets everybody use it.
  constexpr char kCongestionControl[] = "reno";
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kCongestionControl,
                     sizeof kCongestionControl - 1);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
}

}  // namespace ddprun
