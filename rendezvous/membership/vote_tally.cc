#include "rendezvous/membership/vote_tally.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

std::size_t at(VoterState standing) {
  return static_cast<std::size_t>(standing);
}

}  // namespace

bool holds(const Configuration& configuration, VoterId voter) {
  return std::binary_search(configuration.voters.begin(), configuration.voters.end(), voter);
}

bool VoteTally::in_any(VoterId voter) const {
  return std::any_of(counted_.begin(), counted_.end(),
                     [&](const Counted& one) { return one.configuration.contains(voter); });
}

VoteTally::Count VoteTally::weight(VoterId voter) const {
  const auto found = here_.find(voter);
  if (found == here_.end()) {
    return {dead_.contains(voter) ? 1U : 0U, 0};
  }
  const Connections& by = found->second;
  if (by[ddprun::at(VoterState::beyond)] > 0) {
    return {};
  }
  return by[ddprun::at(VoterState::bound)] > 0 ? Count{0, 1} : Count{1, 0};
}

template <class Change>
void VoteTally::change(VoterId voter, Change apply) {
  const Count before = weight(voter);
  apply();
  const Count after = weight(voter);
  for (Counted& one : counted_) {
    if (one.configuration.contains(voter)) {
      one.count.free += after.free - before.free;
      one.count.bound += after.bound - before.bound;
      DDP_CHECK(one.count.free + one.count.bound <= one.configuration.size(),
                "nobody counts twice");
    }
  }
}

void VoteTally::came(VoterId voter, VoterState standing) {
  change(voter, [&] {
    ++here_[voter][ddprun::at(standing)];
    dead_.erase(voter);
  });
}

void VoteTally::went(VoterId voter, VoterState standing) {
  change(voter, [&] {
    const auto found = here_.find(voter);
    DDP_CHECK(found != here_.end() && found->second[ddprun::at(standing)] > 0, "who goes was here");
    --found->second[ddprun::at(standing)];
    if (found->second == Connections{}) {
      here_.erase(found);
    }
  });
}

void VoteTally::died(VoterId voter) {
  if (in_any(voter) && !here_.contains(voter)) {
    change(voter, [&] { dead_.insert(voter); });
  }
}

void VoteTally::use(const std::vector<const Configuration*>& configurations) {
  counted_.clear();
  for (const Configuration* configuration : configurations) {
    Counted counted;
    counted.configuration.insert(configuration->voters.begin(), configuration->voters.end());
    for (const VoterId one : counted.configuration) {
      const Count weight = this->weight(one);
      counted.count.free += weight.free;
      counted.count.bound += weight.bound;
    }
    counted_.push_back(std::move(counted));
  }
}

void VoteTally::forget_others() {
  std::erase_if(dead_, [&](VoterId one) { return !in_any(one); });
}

}  // namespace ddprun
