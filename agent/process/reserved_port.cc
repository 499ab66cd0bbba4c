#include "agent/process/reserved_port.h"

#include "rendezvous/base/socket.h"

namespace ddprun {

Result<ReservedPort> ReservedPort::any() {
  Fd socket;
  // Without listen(2) a connection that comes too early is refused, and its client tries again.
  if (const int error = net::bind_everywhere(0, socket); error != 0) {
    return errno_error(error, "cannot reserve a port for the workers' own store", "any port");
  }
  const std::uint16_t port = net::local_end(socket.get()).port();
  return ReservedPort(std::move(socket), port);
}

}  // namespace ddprun
