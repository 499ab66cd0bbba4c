#include "rendezvous/protocol/voter_addresses.h"

#include <algorithm>
#include <utility>

namespace ddprun {

VoterAddresses::VoterAddresses(const std::vector<message::VoterAddress>& known, Instant now) {
  for (const message::VoterAddress& one : known) {
    known_.insert_or_assign(one.voter, Known{one, 0, now});
  }
}

void VoterAddresses::learn(const message::VoterAddress& address, Instant now) {
  known_.try_emplace(address.voter, Known{address, 0, now});
}

void VoterAddresses::add(message::VoterAddress address) {
  Known& known = known_[address.voter];
  known.address = std::move(address);
  ++known.connections;
}

void VoterAddresses::went(VoterId agent, Instant now) {
  const auto found = known_.find(agent);
  if (found != known_.end() && --found->second.connections == 0) {
    found->second.away_since = now;
  }
}

void VoterAddresses::forget(Instant limit, const std::vector<const Configuration*>& but) {
  std::erase_if(known_, [&](const auto& one) {
    const auto& [agent, known] = one;
    return known.connections == 0 && known.away_since < limit &&
           std::none_of(but.begin(), but.end(),
                        [agent = agent](const Configuration* configuration) {
                          return holds(*configuration, agent);
                        });
  });
}

const message::VoterAddress* VoterAddresses::find(VoterId agent) const {
  const auto found = known_.find(agent);
  return found == known_.end() ? nullptr : &found->second.address;
}

std::vector<message::VoterAddress> VoterAddresses::all() const {
  std::vector<message::VoterAddress> all;
  all.reserve(known_.size());
  for (const auto& [agent, known] : known_) {
    all.push_back(known.address);
  }
  return all;
}

std::vector<VoterId> VoterAddresses::absent() const {
  std::vector<VoterId> absent;
  for (const auto& [agent, known] : known_) {
    if (known.connections == 0) {
      absent.push_back(agent);
    }
  }
  return absent;
}

}  // namespace ddprun
