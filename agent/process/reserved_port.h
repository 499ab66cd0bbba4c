// ReservedPort: a port that is kept for a worker that will host its own store there
// (TORCH_DISABLE_SHARE_RDZV_TCP_STORE). Bound and not listened on: nobody else is given the number
// meanwhile, and a server that sets SO_REUSEADDR, as PyTorch's does, may listen on it.
#pragma once

#include <cstdint>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun {

class ReservedPort {
 public:
  /// Any free port, on all addresses of this machine. Given back with the object.
  static Result<ReservedPort> any();

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  ReservedPort(Fd socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}

  Fd socket_;
  std::uint16_t port_;
};

}  // namespace ddprun
