// The few socket calls of the lifeline, each with a deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddp {

using SocketDeadline = std::chrono::steady_clock::time_point;

/// A TCP socket listening at `port` (0: any free one) of all addresses, IPv6 and IPv4.
ddprun::Result<ddprun::Fd> listen_anywhere(std::uint16_t port);
std::uint16_t local_port(int fd);

/// Tries every address of `host` until one answers. The socket is as tune() leaves it.
ddprun::Result<ddprun::Fd> connect_to(const std::string& host, std::uint16_t port,
                                      SocketDeadline deadline);
/// Non-blocking, no delay, and keepalive that notices a vanished machine in about ten seconds.
void tune(int fd);

/// Waits for `events` of poll(2). False when the deadline passed.
bool wait_for(int fd, short events, SocketDeadline deadline);
/// Milliseconds until the deadline for poll(2), at least 0.
int milliseconds_left(SocketDeadline deadline);

/// Numeric addresses of the two ends, an IPv4 one in its own form even on an IPv6 socket.
std::string peer_address(int fd);
std::string own_address(int fd);
bool is_loopback(const std::string& address);

/// Sends all or gives up at the deadline or a closed connection (false). Never raises SIGPIPE.
bool send_all(int fd, std::string_view bytes, SocketDeadline deadline);
/// Appends what is there. False at the end of the stream or on an error other than "nothing yet".
bool receive_some(int fd, std::string& bytes);

}  // namespace ddp
