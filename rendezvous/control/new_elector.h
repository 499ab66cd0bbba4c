// A fresh elector's number. Internal to control.
#pragma once

#include <sys/random.h>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/succession.h"

namespace ddprun {

/// 63 bits, never 0: two agents of one job do not meet in it.
inline ElectorId new_elector() {
  std::uint64_t bits = 0;
  DDP_CHECK(::getrandom(&bits, sizeof bits, 0) == sizeof bits, "the kernel gives random bytes");
  return ElectorId{(bits >> 1) | 1};
}

}  // namespace ddprun
