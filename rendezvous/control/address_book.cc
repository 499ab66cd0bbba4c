#include "rendezvous/control/address_book.h"

#include <algorithm>
#include <utility>

namespace ddprun {

void AddressBook::add(message::ElectorAddress address) {
  const ElectorId elector = address.elector;
  known_.insert_or_assign(elector, std::move(address));
}

std::vector<message::ElectorAddress> AddressBook::of(const Succession& succession,
                                                     const std::set<ElectorId>& without) const {
  std::vector<message::ElectorAddress> found;
  const std::vector<ElectorId>& newest = succession.roster.electors;
  for (const Roster* roster : {&succession.roster, &succession.roster_before}) {
    for (const ElectorId elector : roster->electors) {
      const auto known = known_.find(elector);
      const bool twice =
          roster != &succession.roster && std::binary_search(newest.begin(), newest.end(), elector);
      if (known != known_.end() && !twice && !without.contains(elector)) {
        found.push_back(known->second);
      }
    }
  }
  return found;
}

}  // namespace ddprun
