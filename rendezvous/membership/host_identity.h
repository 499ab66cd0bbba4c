// HostIdentity: which machine a process runs on, and which network of it. A name or an address does
// not tell: both move from host to host. Plain values.
#pragma once

#include <cstdint>

namespace ddprun {

/// Of each number 0 means: not known.
struct HostIdentity {
  std::uint64_t boot = 0;     ///< drawn by the kernel when it starts
  std::uint64_t network = 0;  ///< of the kernel's networks (a container has its own)
  std::uint64_t machine = 0;  ///< the same after a reboot

  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

/// A process that binds a port on `now` knows that the one that had this port on `then` has it no
/// more: it is the same network of the same kernel, or the machine was started again since.
constexpr bool is_same_host(const HostIdentity& then, const HostIdentity& now) {
  if (then.boot != 0 && then.boot == now.boot) {
    return then.network != 0 && then.network == now.network;
  }
  return then.boot != 0 && now.boot != 0 && then.machine != 0 && then.machine == now.machine;
}

}  // namespace ddprun
