// OrderlyClose: the TCP connections of an agent that was killed end in order. A kernel that closes
// a socket with unread bytes in it resets the connection, and a reset does not say that the process
// is dead (docs/failover.md): the coordinator could not count its vote, and its successors would
// wait for its lease.
#pragma once

#include <chrono>

namespace ddprun {

/// Ends every TCP connection in this process' table of descriptors: says so to the peer at once,
/// then drops what comes in until the peer has closed too, for at most `patience`. The descriptors
/// stay open. Leaves alone what listens, what was inherited (no FD_CLOEXEC), and what its owner
/// wanted to be reset (SO_LINGER of 0 s:
/// the agent gave that peer up, and lived). For the guardian of an agent that is dead; nobody else
/// may use the sockets any more.
void end_connections_in_order(std::chrono::milliseconds patience);

}  // namespace ddprun
