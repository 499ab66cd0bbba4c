// Channel: a connected socket, and the TLS session on it where the job has TLS: what is handed on
// from who accepts or connects to who speaks. It does no I/O. Internal to control.
//
// Neither side says close_notify (RFC 8446, 6.1): each message of the protocol says how long it is,
// and the end of the TCP connection is a statement of its own (docs/failover.md), which a process
// that was killed makes, too.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/tls/tls_session.h"

namespace ddprun {

struct Channel {
  Channel() = default;
  Channel(Fd the_socket) : socket(std::move(the_socket)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return static_cast<bool>(socket); }

  Fd socket;
  std::unique_ptr<TlsSession> tls;  ///< established; null: plain text
  /// Plain text that came right behind what was read last: it is read first.
  std::string unread;
};

}  // namespace ddprun
