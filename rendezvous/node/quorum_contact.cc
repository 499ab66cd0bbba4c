#include "rendezvous/node/quorum_contact.h"

#include <algorithm>

#include "rendezvous/membership/quorum.h"

namespace ddprun {

Instant quorum_contact(const Configuration& configuration,
                       const std::vector<FollowerContact>& followers) {
  const auto& voters = configuration.voters;
  // By voter: one that is here twice, before its old connection is known to be gone, counts once.
  std::vector<Instant> fresh(voters.size(), kNever);
  bool in_configuration = false;
  for (const FollowerContact& one : followers) {
    const auto found = std::lower_bound(voters.begin(), voters.end(), one.voter);
    if (found != voters.end() && *found == one.voter) {
      Instant& newest = fresh[static_cast<std::size_t>(found - voters.begin())];
      newest = std::max(newest, one.fresh);
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
