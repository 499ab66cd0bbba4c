// AddressBook: where the electors of a job are reached. Internal to control.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "rendezvous/control/message.h"
#include "rendezvous/membership/succession.h"

namespace ddprun {

class AddressBook {
 public:
  explicit AddressBook(const std::vector<message::ElectorAddress>& known = {});
  void add(message::ElectorAddress address);
  /// Null where it is not known; until the next change.
  [[nodiscard]] const message::ElectorAddress* find(ElectorId elector) const;
  /// Those of the rosters, each once, as far as they are known, without some.
  [[nodiscard]] std::vector<message::ElectorAddress> of(
      const std::vector<const Roster*>& rosters, const std::set<ElectorId>& without = {}) const;

 private:
  std::map<ElectorId, message::ElectorAddress> known_;  ///< of all that ever were here
};

}  // namespace ddprun
