#include "rendezvous/protocol/voter_addresses.h"

#include <algorithm>
#include <utility>

namespace ddprun {

VoterAddresses::VoterAddresses(const std::vector<message::VoterAddress>& known) {
  for (const message::VoterAddress& one : known) {
    known_.emplace(one.voter, one);
  }
}

const message::VoterAddress* VoterAddresses::find(VoterId voter) const {
  const auto found = known_.find(voter);
  return found == known_.end() ? nullptr : &found->second;
}

void VoterAddresses::add(message::VoterAddress address) {
  const VoterId voter = address.voter;
  known_.insert_or_assign(voter, std::move(address));
}

std::vector<message::VoterAddress> VoterAddresses::of(
    const std::vector<const Configuration*>& configurations,
    const std::set<VoterId>& without) const {
  std::vector<message::VoterAddress> found;
  std::set<VoterId> named = without;
  for (const Configuration* configuration : configurations) {
    for (const VoterId voter : configuration->voters) {
      const auto known = known_.find(voter);
      if (known != known_.end() && named.insert(voter).second) {
        found.push_back(known->second);
      }
    }
  }
  return found;
}

}  // namespace ddprun
