#include "rendezvous/protocol/voter_addresses.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

bool is_of_any(const std::vector<const Configuration*>& configurations, VoterId agent) {
  return std::any_of(configurations.begin(), configurations.end(),
                     [agent](const Configuration* one) { return holds(*one, agent); });
}

}  // namespace

/// A successor begins with the list of its predecessor: nobody has joined it yet, so all are away.
VoterAddresses::VoterAddresses(const std::vector<message::VoterAddress>& known, Instant now) {
  for (const message::VoterAddress& one : known) {
    if (number(one.voter) != 0) {
      known_.insert_or_assign(one.voter, Known{one, 0, now});
    }
  }
  DDP_CHECK(known_.size() <= known.size(), "an agent is listed once");
}

/// What a node remembers of another is older than what that one sends itself, so it replaces
/// nothing. A hello may name anything: voter 0 is an agent that nobody calls, and that is never
/// added, so each of its ends would be counted.
void VoterAddresses::learn(const message::VoterAddress& address, Instant now) {
  if (number(address.voter) != 0) {
    known_.try_emplace(address.voter, Known{address, 0, now});
  }
}

/// Connections are counted, for an agent may come back before its old connection has ended. That
/// end must not make it an absent node that is called.
void VoterAddresses::add(message::VoterAddress address) {
  DDP_CHECK(number(address.voter) != 0, "an agent without a vote is not listed");
  Known& known = known_[address.voter];
  known.address = std::move(address);
  ++known.connections;
  DDP_CHECK(known.connections > 0, "a node that has just joined is here");
}

void VoterAddresses::went(VoterId agent, Instant now) {
  const auto found = known_.find(agent);
  if (found != known_.end() && found->second.connections > 0 && --found->second.connections == 0) {
    found->second.away_since = now;
  }
}

/// Nodes come and go for as long as the job runs, and the list goes to every voter. So it must not
/// keep the dead, but those that vote stay: without them no quorum may be found.
void VoterAddresses::forget(Instant limit, const std::vector<const Configuration*>& but) {
  std::erase_if(known_, [&](const auto& one) {
    const auto& [agent, known] = one;
    return known.connections == 0 && known.away_since < limit && !is_of_any(but, agent);
  });
}

/// By a call it would come again, and not by the endpoint for which it was refused: one that was on
/// its way when the agent had not ended yet has let a stranger in.
void VoterAddresses::refused(VoterId agent, Instant now,
                             const std::vector<const Configuration*>& but) {
  went(agent, now);
  const auto found = known_.find(agent);
  if (found != known_.end() && found->second.connections == 0 && !is_of_any(but, agent)) {
    known_.erase(found);
  }
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
