#include "rendezvous/control/address_book.h"

#include <algorithm>
#include <utility>

namespace ddprun {

AddressBook::AddressBook(const std::vector<message::ElectorAddress>& known) {
  for (const message::ElectorAddress& one : known) {
    known_.emplace(one.elector, one);
  }
}

const message::ElectorAddress* AddressBook::find(ElectorId elector) const {
  const auto found = known_.find(elector);
  return found == known_.end() ? nullptr : &found->second;
}

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
