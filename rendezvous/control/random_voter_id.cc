#include "rendezvous/control/random_voter_id.h"

#include <sys/random.h>

#include <cstdint>

#include "rendezvous/base/check.h"

namespace ddprun {

VoterId random_voter_id() {
  std::uint64_t bits = 0;
  DDP_CHECK(::getrandom(&bits, sizeof bits, 0) == sizeof bits, "the kernel gives random bytes");
  return VoterId{(bits >> 1) | 1};
}

}  // namespace ddprun
