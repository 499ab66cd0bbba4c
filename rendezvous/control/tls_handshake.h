// TlsHandshake: how a connection between two agents of a job with TLS begins, on either side.
// Internal to control; authentication is what uses it.
#pragma once

#include "rendezvous/control/authentication.h"

namespace ddprun {

/// Of who has connected. An agent without TLS is known by its first bytes, and is told; so is one
/// whose certificate does not count. Of another the bytes are handed on as they came.
Authentication accept_tls(boost::asio::io_context& io, Fd socket, JobTls& tls,
                          AuthenticationOwner& owner, std::uint64_t id);

/// Of who connects. A listener that speaks no TLS is another: what it says is still unread.
Authentication connect_tls(boost::asio::io_context& io, Fd socket, JobTls& tls,
                           AuthenticationOwner& owner, std::uint64_t id);

}  // namespace ddprun
