// VoterAddresses: where the voters of a job are reached. Internal to control.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

class VoterAddresses {
 public:
  explicit VoterAddresses(const std::vector<message::VoterAddress>& known = {});
  void add(message::VoterAddress address);
  /// Null where it is not known; until the next change.
  [[nodiscard]] const message::VoterAddress* find(VoterId voter) const;
  /// Those of the configurations, each once, as far as they are known, without some.
  [[nodiscard]] std::vector<message::VoterAddress> of(
      const std::vector<const Configuration*>& configurations,
      const std::set<VoterId>& without = {}) const;

 private:
  std::map<VoterId, message::VoterAddress> known_;  ///< of all that ever were here
};

}  // namespace ddprun
