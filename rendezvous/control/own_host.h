// Which machine this process runs on. Internal to control.
#pragma once

#include "rendezvous/membership/host_identity.h"

namespace ddprun {

/// From /proc and /etc/machine-id (proc(5), namespaces(7), machine-id(5)); what cannot be read
/// is 0.
HostIdentity own_host();

}  // namespace ddprun
