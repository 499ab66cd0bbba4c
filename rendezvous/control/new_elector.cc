#include "rendezvous/control/new_elector.h"

#include <sys/random.h>

#include <cstdint>

#include "rendezvous/base/check.h"

namespace ddprun {

ElectorId new_elector() {
  std::uint64_t bits = 0;
  DDP_CHECK(::getrandom(&bits, sizeof bits, 0) == sizeof bits, "the kernel gives random bytes");
  return ElectorId{(bits >> 1) | 1};
}

}  // namespace ddprun
