#include "rendezvous/membership/backing.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

bool holds(const Roster& roster, ElectorId elector) {
  return std::binary_search(roster.electors.begin(), roster.electors.end(), elector);
}

bool Backing::is_ours(ElectorId elector, const std::function<bool(ElectorId)>& follows) const {
  if (dead_.contains(elector)) {
    return true;
  }
  const auto found = given_up_.find(elector);
  return found != given_up_.end() &&
         std::all_of(found->second.begin(), found->second.end(), [&](ElectorId candidate) {
           return number(candidate) == 0 || dead_.contains(candidate) ||
                  given_up_.contains(candidate) || candidate == self_ || follows(candidate);
         });
}

bool Backing::backs(ElectorId elector) const {
  return here_.contains(elector) ||
         is_ours(elector, [this](ElectorId candidate) { return here_.contains(candidate); });
}

bool Backing::in_any(ElectorId elector) const {
  return std::any_of(counted_.begin(), counted_.end(),
                     [&](const Counted& one) { return one.roster.contains(elector); });
}

void Backing::add_weight(ElectorId elector, Counts& counts) const {
  if (backs(elector)) {
    for (std::size_t i = 0; i < counted_.size(); ++i) {
      counts[i] += counted_[i].roster.contains(elector) ? 1 : 0;
    }
  }
}

/// Of all whose weight depends on the state of this one.
Backing::Counts Backing::weight_with_promisers(ElectorId elector) const {
  Counts all{};
  add_weight(elector, all);
  if (const auto found = promised_.find(elector); found != promised_.end()) {
    for (const ElectorId one : found->second) {
      if (one != elector) {
        add_weight(one, all);
      }
    }
  }
  return all;
}

template <class Change>
void Backing::change(ElectorId elector, Change apply) {
  const Counts before = weight_with_promisers(elector);
  apply();
  const Counts after = weight_with_promisers(elector);
  for (std::size_t i = 0; i < counted_.size(); ++i) {
    counted_[i].count = counted_[i].count + after[i] - before[i];
    DDP_CHECK(counted_[i].count <= counted_[i].roster.size(), "nobody counts twice");
  }
}

void Backing::came(ElectorId elector) {
  change(elector, [&] {
    ++here_[elector];
    dead_.erase(elector);
  });
}

void Backing::went(ElectorId elector) {
  change(elector, [&] {
    const auto found = here_.find(elector);
    DDP_CHECK(found != here_.end(), "who goes was here");
    if (--found->second == 0) {
      here_.erase(found);
    }
  });
}

void Backing::died(ElectorId elector) {
  if (in_any(elector)) {
    change(elector, [&] { dead_.insert(elector); });
  }
}

void Backing::gave_up(ElectorId elector, ElectorId promised_to) {
  // Its own promise changes nobody else's weight; that it is given up does.
  change(elector, [&] {
    given_up_[elector].insert(promised_to);
    promised_[promised_to].insert(elector);
  });
}

void Backing::use(const Roster& basis, const Roster& beside) {
  const std::array<const Roster*, 2> rosters{&basis, &beside};
  for (std::size_t i = 0; i < rosters.size(); ++i) {
    Counted& counted = counted_[i];
    counted.roster.clear();
    counted.roster.insert(rosters[i]->electors.begin(), rosters[i]->electors.end());
    counted.count =
        static_cast<std::size_t>(std::count_if(counted.roster.begin(), counted.roster.end(),
                                               [this](ElectorId one) { return backs(one); }));
  }
}

void Backing::forget_others() {
  std::erase_if(dead_, [&](ElectorId one) { return !in_any(one); });
  std::erase_if(given_up_, [&](const auto& one) { return !in_any(one.first); });
  promised_.clear();
  for (const auto& [elector, candidates] : given_up_) {
    for (const ElectorId candidate : candidates) {
      promised_[candidate].insert(elector);
    }
  }
  for (Counted& counted : counted_) {
    counted.count =
        static_cast<std::size_t>(std::count_if(counted.roster.begin(), counted.roster.end(),
                                               [this](ElectorId one) { return backs(one); }));
  }
}

}  // namespace ddprun
