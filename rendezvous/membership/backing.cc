#include "rendezvous/membership/backing.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

std::size_t at(Standing standing) {
  return static_cast<std::size_t>(standing);
}

}  // namespace

bool holds(const Roster& roster, ElectorId elector) {
  return std::binary_search(roster.electors.begin(), roster.electors.end(), elector);
}

bool Backing::in_any(ElectorId elector) const {
  return std::any_of(counted_.begin(), counted_.end(),
                     [&](const Counted& one) { return one.roster.contains(elector); });
}

Backing::Count Backing::weight(ElectorId elector) const {
  const auto found = here_.find(elector);
  if (found == here_.end()) {
    return {dead_.contains(elector) ? 1U : 0U, 0};
  }
  const Connections& by = found->second;
  if (by[ddprun::at(Standing::beyond)] > 0) {
    return {};
  }
  return by[ddprun::at(Standing::bound)] > 0 ? Count{0, 1} : Count{1, 0};
}

template <class Change>
void Backing::change(ElectorId elector, Change apply) {
  const Count before = weight(elector);
  apply();
  const Count after = weight(elector);
  for (Counted& one : counted_) {
    if (one.roster.contains(elector)) {
      one.count.free += after.free - before.free;
      one.count.bound += after.bound - before.bound;
      DDP_CHECK(one.count.free + one.count.bound <= one.roster.size(), "nobody counts twice");
    }
  }
}

void Backing::came(ElectorId elector, Standing standing) {
  change(elector, [&] {
    ++here_[elector][ddprun::at(standing)];
    dead_.erase(elector);
  });
}

void Backing::went(ElectorId elector, Standing standing) {
  change(elector, [&] {
    const auto found = here_.find(elector);
    DDP_CHECK(found != here_.end() && found->second[ddprun::at(standing)] > 0, "who goes was here");
    --found->second[ddprun::at(standing)];
    if (found->second == Connections{}) {
      here_.erase(found);
    }
  });
}

void Backing::died(ElectorId elector) {
  if (in_any(elector) && !here_.contains(elector)) {
    change(elector, [&] { dead_.insert(elector); });
  }
}

void Backing::use(const std::vector<const Roster*>& rosters) {
  counted_.clear();
  for (const Roster* roster : rosters) {
    Counted counted;
    counted.roster.insert(roster->electors.begin(), roster->electors.end());
    for (const ElectorId one : counted.roster) {
      const Count weight = this->weight(one);
      counted.count.free += weight.free;
      counted.count.bound += weight.bound;
    }
    counted_.push_back(std::move(counted));
  }
}

void Backing::forget_others() {
  std::erase_if(dead_, [&](ElectorId one) { return !in_any(one); });
}

}  // namespace ddprun
