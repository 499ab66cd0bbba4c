#include "rendezvous/control/random_voter_id.h"

#include <sys/random.h>

#include <cstdint>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// 63 bits, for formats with signed numbers only. The lowest bit is set, because 0 means "none".
std::uint64_t random_number() {
  std::uint64_t bits = 0;
  // Up to 256 bytes come whole and without EINTR, once the kernel's pool is ready (getrandom(2)).
  DDP_CHECK(::getrandom(&bits, sizeof bits, 0) == sizeof bits, "the kernel gives random bytes");
  return (bits >> 1) | 1;
}

}  // namespace

VoterId random_voter_id() {
  return VoterId{random_number()};
}

JobInstance random_job_instance() {
  return JobInstance{random_number()};
}

}  // namespace ddprun
