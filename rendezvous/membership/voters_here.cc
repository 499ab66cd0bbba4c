#include "rendezvous/membership/voters_here.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

VoterHere::VoterHere(VoterId voter, const Promise& promise, const std::optional<Past>& past)
    : voter_(voter) {
  if (past || promise != Promise{}) {
    memory_ = std::make_unique<Memory>(Memory{promise, past});
  }
}

/// A static one for all that brought none: there may be ten thousand (memory_).
const Promise& VoterHere::promise() const {
  static const Promise none;
  return memory_ ? memory_->promise : none;
}

const Past* VoterHere::past() const {
  return memory_ && memory_->past ? &*memory_->past : nullptr;
}

/// A vote for this coordinator binds the voter to nobody else. Nor does one for itself: it follows.
bool VoterHere::voted_for_another(VoterId self) const {
  const std::vector<VoterId>& granted = promise().granted;
  return std::any_of(granted.begin(), granted.end(),
                     [&](VoterId candidate) { return candidate != self && candidate != voter_; });
}

/// Its past stays, for the world that it worked in is still what it was.
void VoterHere::release() {
  if (memory_) {
    memory_->promise = {};
  }
  above = {};
  beyond = false;
}

VoterHere& VotersHere::add(NodeId node, VoterHere here) {
  connections_.emplace(here.voter(), node);
  const auto [at, is_new] = nodes_.emplace(node, std::move(here));
  DDP_CHECK(is_new, "a node joins once");
  return at->second;
}

const VoterHere* VotersHere::find(NodeId node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() ? &found->second : nullptr;
}

VoterHere* VotersHere::find(NodeId node) {
  const auto found = nodes_.find(node);
  return found != nodes_.end() ? &found->second : nullptr;
}

const VoterHere& VotersHere::at(NodeId node) const {
  const VoterHere* const here = find(node);
  DDP_CHECK(here != nullptr, "the node is here");
  return *here;
}

/// The dead are not touched: whether this one died is for the caller to say.
VoterHere VotersHere::remove(NodeId node) {
  const auto found = nodes_.find(node);
  DDP_CHECK(found != nodes_.end(), "the node is here");
  VoterHere here = std::move(found->second);
  nodes_.erase(found);
  const std::size_t erased = connections_.erase({here.voter(), node});
  DDP_CHECK(erased == 1, "each node is listed once, under its voter");
  return here;
}

bool VotersHere::is_here(VoterId voter) const {
  const auto first = connections_.lower_bound({voter, NodeId{}});
  return first != connections_.end() && first->first == voter;
}

/// Node ids rise with time, so the set has them oldest first.
std::vector<NodeId> VotersHere::connections_of(VoterId voter) const {
  std::vector<NodeId> nodes;
  if (number(voter) == 0) {
    return nodes;
  }
  for (auto at = connections_.lower_bound({voter, NodeId{}});
       at != connections_.end() && at->first == voter; ++at) {
    nodes.push_back(at->second);
  }
  return nodes;
}

void VotersHere::forget_dead_but_of(const Configuration& configuration) {
  std::erase_if(dead_, [&](VoterId voter) { return !holds(configuration, voter); });
}

bool VotersHere::is_free(VoterId voter, const std::set<VoterId>* among) const {
  return is_here(voter) && (among == nullptr || among->contains(voter)) &&
         standing_of(voter, among) == Standing::free;
}

/// Walks over the voters of one configuration, which are few (kVotersMax), not over all nodes.
VotersHere::Count VotersHere::count(const Configuration& configuration, VoterId self,
                                    const std::set<VoterId>* among) const {
  Count count;
  for (const VoterId voter : configuration.voters) {
    if (!is_here(voter)) {
      count.dead += dead_.contains(voter) ? 1 : 0;
      continue;
    }
    const Standing standing = standing_of(voter, among);
    if (standing != Standing::beyond && (among == nullptr || among->contains(voter))) {
      ++(standing == Standing::free ? count.free : count.bound);
      count.own = count.own || (standing == Standing::free && voter == self);
    }
  }
  DDP_CHECK(count.free + count.bound + count.dead <= configuration.voters.size(),
            "each voter counts once");
  return count;
}

/// By the worst of its connections, since any of them may be the newest word of that process.
VotersHere::Standing VotersHere::standing_of(VoterId voter, const std::set<VoterId>* among) const {
  bool free = true;
  for (const NodeId node : connections_of(voter)) {
    const VoterHere& here = at(node);
    if (here.beyond) {
      return Standing::beyond;
    }
    for (const VoterId granted : here.promise().granted) {
      free = free && leads_nobody(granted, among);
    }
  }
  return free ? Standing::free : Standing::bound;
}

/// A candidate that follows this coordinator leads nobody, nor does one that died while it
/// followed. But one that is beyond acknowledges nothing, so a vote for it stays a vote for it.
bool VotersHere::leads_nobody(VoterId candidate, const std::set<VoterId>* among) const {
  if (dead_.contains(candidate)) {
    return true;
  }
  if (among != nullptr) {
    return among->contains(candidate);
  }
  const std::vector<NodeId> nodes = connections_of(candidate);
  return !nodes.empty() &&
         std::none_of(nodes.begin(), nodes.end(), [this](NodeId node) { return at(node).beyond; });
}

Configuration VotersHere::configuration_of(const std::vector<NodeId>& nodes) const {
  Configuration configuration;
  for (const NodeId node : nodes) {
    configuration.voters.push_back(at(node).voter());
  }
  std::sort(configuration.voters.begin(), configuration.voters.end());
  // A node may be here twice, before its old connection is known to be gone: it votes once.
  configuration.voters.erase(std::unique(configuration.voters.begin(), configuration.voters.end()),
                             configuration.voters.end());
  return configuration;
}

}  // namespace ddprun
