#include "rendezvous/membership/backing.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

bool holds(const Roster& roster, ElectorId elector) {
  return std::binary_search(roster.electors.begin(), roster.electors.end(), elector);
}

bool Backing::is_ours(ElectorId elector) const {
  if (dead_.contains(elector)) {
    return true;
  }
  const auto found = given_up_.find(elector);
  return found != given_up_.end() && (number(found->second) == 0 || dead_.contains(found->second) ||
                                      given_up_.contains(found->second) || found->second == self_);
}

std::size_t Backing::weight(ElectorId elector) const {
  return roster_.contains(elector) && (here_.contains(elector) || is_ours(elector)) ? 1 : 0;
}

/// Of all whose weight depends on the state of this one.
std::size_t Backing::weight_with_promisers(ElectorId elector) const {
  std::size_t all = weight(elector);
  if (const auto found = promised_.find(elector); found != promised_.end()) {
    for (const ElectorId one : found->second) {
      all += one == elector ? 0 : weight(one);
    }
  }
  return all;
}

template <class Change>
void Backing::change(ElectorId elector, Change apply) {
  const std::size_t before = weight_with_promisers(elector);
  apply();
  count_ = count_ + weight_with_promisers(elector) - before;
  DDP_CHECK(count_ <= roster_.size(), "nobody counts twice");
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
  if (roster_.contains(elector)) {
    change(elector, [&] { dead_.insert(elector); });
  }
}

void Backing::gave_up(ElectorId elector, ElectorId promised_to) {
  // Its own promise changes nobody else's weight; that it is given up does.
  change(elector, [&] {
    const auto [found, fresh] = given_up_.try_emplace(elector, promised_to);
    if (!fresh) {
      promised_[found->second].erase(elector);
      found->second = promised_to;
    }
    promised_[promised_to].insert(elector);
  });
}

void Backing::use(const Roster& roster) {
  roster_.clear();
  roster_.insert(roster.electors.begin(), roster.electors.end());
  std::erase_if(dead_, [&](ElectorId one) { return !roster_.contains(one); });
  std::erase_if(given_up_, [&](const auto& one) { return !roster_.contains(one.first); });
  promised_.clear();
  for (const auto& [elector, promised_to] : given_up_) {
    promised_[promised_to].insert(elector);
  }
  count_ =
      static_cast<std::size_t>(std::count_if(roster.electors.begin(), roster.electors.end(),
                                             [this](ElectorId one) { return weight(one) == 1; }));
}

}  // namespace ddprun
