// Sockets without an event loop: addresses, binding, connecting and waiting, each with a deadline
// where it may take long. What belongs to one protocol (who listens where, what is said first) is
// with that protocol.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun::net {

using Deadline = std::chrono::steady_clock::time_point;

/// Of the internet, IPv4 or IPv6; of a socket pair neither: then its texts are empty, its port 0.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  /// Numeric, an IPv4 one in its own form even where it came over an IPv6 socket: "10.0.0.1".
  [[nodiscard]] std::string host() const;
  [[nodiscard]] std::uint16_t port() const;
  /// "127.0.0.1:29500", "[::1]:29500".
  [[nodiscard]] std::string text() const;
};

/// All addresses of a host, in the resolver's order; at least one. Blocks as long as the resolver.
Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port);
/// The two ends of a socket that is bound, or connected.
Address local_end(int fd);
Address far_end(int fd);
bool is_loopback(const std::string& numeric_host);

/// A socket bound to `port` (0: any free one) of all addresses, IPv6 and IPv4 where the kernel has
/// both; not listening yet. Non-blocking, and the port of a program that has just ended is free.
/// 0, or the errno of the failure.
int bind_everywhere(std::uint16_t port, Fd& socket);
/// The same at one numeric address; EINVAL where it is none.
int bind_at(const std::string& numeric_host, std::uint16_t port, Fd& socket);
/// One attempt at one address. 0 and a non-blocking socket with TCP_NODELAY, or the errno of the
/// failure, ETIMEDOUT at the deadline.
int try_connect(const Address& address, Deadline deadline, Fd& socket);

/// Whether the other side has ended the connection and nothing that it said is unread: seen without
/// a read, which would tell it. Takes a reset away: a read after it finds an orderly end.
bool has_ended(int socket);

/// Blocks until the socket is ready for the poll() events (or has failed: the next call on it
/// tells), or the deadline has passed: then false.
bool wait_ready(int fd, short events, Deadline deadline);
/// For poll(): rounded up, 0 when the deadline has passed.
int milliseconds_left(Deadline deadline);

}  // namespace ddprun::net
