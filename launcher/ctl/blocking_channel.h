// BlockingChannel: a channel to an agent as ddpctl uses it, plain or over TLS: each call waits, up
// to a deadline. control/byte_stream has a loop in its place.
#pragma once

#include <string>
#include <string_view>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/channel.h"

namespace ddprun {

/// 0, or errno; ETIMEDOUT at the deadline.
int send_all(Channel& channel, std::string_view text, net::Deadline deadline);

/// What comes next is put behind `channel.unread`; none of it: the other side has ended the
/// connection. 0, or errno; EPROTO: TLS has failed, and says why.
int receive_some(Channel& channel, net::Deadline deadline);

/// The client's side of the handshake, on a channel that has a session for it. 0, or errno; EPROTO:
/// TLS has failed and says why, or `channel.unread` is what the other side says in plain text.
int shake_hands(Channel& channel, net::Deadline deadline);

}  // namespace ddprun
