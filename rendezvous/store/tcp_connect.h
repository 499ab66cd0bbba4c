// Blocking TCP with deadlines, without an event loop: what the store's client stands on.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/base/fd.h"

struct addrinfo;

namespace ddprun {

/// Blocks until the socket is ready for the poll() events (or has failed: the next call on it
/// tells), or the deadline has passed: then false.
bool wait_ready(int fd, short events, std::chrono::steady_clock::time_point deadline);

/// One attempt at one address. 0 and a non-blocking socket with TCP_NODELAY, or the errno of the
/// failure.
int try_connect(const addrinfo& address, std::chrono::steady_clock::time_point deadline,
                Fd& socket);

/// "127.0.0.1:29500", "[::1]:29500".
std::string address_text(const addrinfo& address);

}  // namespace ddprun
