// The few socket calls of the lifeline beyond rendezvous/base/socket.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/socket.h"

namespace ddp {

/// A TCP socket listening at `port` (0: any free one) of all addresses, IPv6 and IPv4.
ddprun::Result<ddprun::Fd> listen_anywhere(std::uint16_t port);

/// Tries every address of `host` until one answers. The socket is as tune() leaves it.
ddprun::Result<ddprun::Fd> connect_to(const std::string& host, std::uint16_t port,
                                      ddprun::net::Deadline deadline);
/// Non-blocking, no delay, and keepalive that notices a vanished machine in about ten seconds.
void tune(int fd);

/// Sends all or gives up at the deadline or a closed connection (false). Never raises SIGPIPE.
bool send_all(int fd, std::string_view bytes, ddprun::net::Deadline deadline);
/// Appends what is there. False at the end of the stream or on an error other than "nothing yet".
bool receive_some(int fd, std::string& bytes);

}  // namespace ddp
