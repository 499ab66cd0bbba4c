#include "worker_runtime/bootstrap/peer_monitor_socket.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ddp {
namespace {

namespace net = ddprun::net;
using ddprun::Error;
using ddprun::Fd;
using ddprun::Result;

void set_option(int fd, int level, int name, int value) {
  // Each of these is an improvement, none a need: a kernel that refuses one is no reason to fail.
  (void)::setsockopt(fd, level, name, &value, sizeof(value));
}

}  // namespace

Result<Fd> listen_anywhere(std::uint16_t port) {
  Fd fd;
  // One socket for IPv6 and IPv4: which of them a rank uses is not known here.
  int error = net::bind_everywhere(port, fd);
  if (error == 0 && ::listen(fd.get(), SOMAXCONN) != 0) {
    error = errno;
  }
  // Where ranks meet by port the number is the user's choice, so the sentence says what to change.
  if (error == EADDRINUSE) {
    return Error(fmt::format("port {} is taken by another program", port), "",
                 "choose another MASTER_PORT");
  }
  if (error != 0) {
    return ddprun::errno_error(error, "cannot open a port for the other ranks");
  }
  return fd;
}

Result<Fd> connect_to(const std::string& host, std::uint16_t port, net::Deadline deadline) {
  const auto addresses = net::resolve(host, port);
  if (!addresses) {
    return Error(addresses.error().what, host, "check MASTER_ADDR");
  }
  int error = 0;
  // A name may have an address that leads nowhere (IPv6, as a rule): all are tried, and the last
  // error counts.
  for (const net::Address& address : *addresses) {
    Fd fd;
    error = net::try_connect(address, deadline, fd);
    if (error == 0) {
      tune(fd.get());
      return fd;
    }
  }
  return Error(error == ETIMEDOUT ? std::string("cannot connect: no answer in time")
                                  : std::string("cannot connect: ") + std::strerror(error),
               fmt::format("{} port {}", host, port), "");
}

void tune(int fd) {
  // Each wait has a deadline and goes through poll(2), so no call may block.
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  // Frames are small, and each is waited for: Nagle's algorithm would hold them back.
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A machine that vanished closes nothing. Idle connections are probed after 4 s, three times
  // every 2 s; what was sent and never acknowledged breaks the connection after as long, 10 s.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

bool send_all(int fd, std::string_view bytes, net::Deadline deadline) {
  while (!bytes.empty()) {
    // MSG_NOSIGNAL: a closed connection is an error here, whatever the program does about SIGPIPE.
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (sent < 0 && errno == EINTR) {
      continue;
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // The buffers are full: the peer is stopped, or its machine is gone.
      if (!net::wait_ready(fd, POLLOUT, deadline)) {
        return false;
      }
    } else {
      return false;
    }
  }
  return true;
}

bool receive_some(int fd, std::string& bytes) {
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got > 0) {
      bytes.append(buffer, static_cast<std::size_t>(got));
      // A short read has emptied the socket; after a full one there may be more.
      if (static_cast<std::size_t>(got) < sizeof(buffer)) {
        return true;
      }
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      // 0 is the end of the stream.
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
}

}  // namespace ddp
