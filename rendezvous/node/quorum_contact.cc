#include "rendezvous/node/quorum_contact.h"

#include <algorithm>

#include "rendezvous/membership/quorum.h"

namespace ddprun {

Instant quorum_contact(const Configuration& configuration,
                       const std::vector<FollowerContact>& followers) {
  std::vector<Instant> fresh;
  bool in_configuration = false;
  for (const FollowerContact& one : followers) {
    if (std::binary_search(configuration.voters.begin(), configuration.voters.end(), one.voter)) {
      fresh.push_back(one.fresh);
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
