#include "rendezvous/control/quorum_contact.h"

#include <algorithm>

#include "rendezvous/membership/quorum.h"

namespace ddprun {

Instant quorum_contact(const Roster& roster, const std::vector<FollowerContact>& followers) {
  std::vector<Instant> fresh;
  bool in_roster = false;
  for (const FollowerContact& one : followers) {
    if (std::binary_search(roster.electors.begin(), roster.electors.end(), one.elector)) {
      fresh.push_back(one.fresh);
      in_roster = in_roster || one.local;
    }
  }
  std::sort(fresh.rbegin(), fresh.rend());
  for (std::size_t count = 1; count <= fresh.size(); ++count) {
    if (keeps_quorum(count, roster.electors.size(), in_roster)) {
      return fresh[count - 1];
    }
  }
  return kNever;
}

}  // namespace ddprun
