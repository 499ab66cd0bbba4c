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

std::vector<message::ElectorAddress> AddressBook::of(const std::vector<const Roster*>& rosters,
                                                     const std::set<ElectorId>& without) const {
  std::vector<message::ElectorAddress> found;
  std::set<ElectorId> named = without;
  for (const Roster* roster : rosters) {
    for (const ElectorId elector : roster->electors) {
      const auto known = known_.find(elector);
      if (known != known_.end() && named.insert(elector).second) {
        found.push_back(known->second);
      }
    }
  }
  return found;
}

}  // namespace ddprun
