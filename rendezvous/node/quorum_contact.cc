#include "rendezvous/node/quorum_contact.h"

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {

/// The nth newest contact, where n voters are a quorum. At that time n voters followed, all at
/// once, so no successor had been elected by then: it needs more than half of the voters.
Instant quorum_contact(const Configuration& configuration,
                       const std::vector<FollowerContact>& followers) {
  const auto& voters = configuration.voters;
  // By voter: one with two connections, of which the old one is not known to be gone, counts once.
  std::vector<Instant> fresh(voters.size(), kNever);
  bool in_configuration = false;
  for (const FollowerContact& one : followers) {
    const auto found = std::lower_bound(voters.begin(), voters.end(), one.voter);
    if (found != voters.end() && *found == one.voter) {
      Instant& newest = fresh[static_cast<std::size_t>(found - voters.begin())];
      newest = std::max(newest, one.fresh);
      DDP_CHECK(newest >= kNever, "no contact is before all time");
      in_configuration = in_configuration || one.local;
    }
  }
  std::sort(fresh.rbegin(), fresh.rend());
  for (std::size_t count = 1; count <= fresh.size(); ++count) {
    if (keeps_quorum(count, configuration.voters.size(), in_configuration)) {
      return fresh[count - 1];
    }
  }
  return kNever;
}

}  // namespace ddprun
