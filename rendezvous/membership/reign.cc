#include "rendezvous/membership/reign.h"

#include <algorithm>
#include <string>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {

Reign::Reign(Term term, ElectorId self, Succession known, AttemptNumber first)
    : self_(self),
      in_use_(std::move(known)),
      newest_roster_(in_use_.roster.number),
      horizon_(in_use_.horizon()),
      next_(first) {
  in_use_.term = in_use_.since = term;
  in_use_.coordinator = self;
  backing_.use(deciders());
}

// --- Who is here ----------------------------------------------------------------------------

void Reign::joined(NodeId node, ElectorId elector, const Pledge& pledge,
                   const std::optional<Past>& past) {
  DDP_CHECK(!here_.contains(node), "a node joins once");
  drop_plan();
  const Here here{elector, standing_of(pledge, past), is_ours(pledge) ? Term{} : pledge.term};
  here_[node] = here;
  backing_.came(elector, here.standing);
  if (past && enabled() && !begun() && !is_own(past->roster)) {
    note_past(node, here, pledge, *past);
  }
  if (!knows(pledge.roster)) {
    beyond_ = std::max(beyond_.value_or(RosterNumber{}), pledge.roster);
  }
}

bool Reign::knows(RosterNumber roster) const {
  return horizon_.covers(roster) || is_own(roster);
}

bool Reign::is_own(RosterNumber roster) const {
  const RosterNumber own = make_roster(term_of(roster), self_, count_of(roster));
  return roster == own && own_terms_.contains(term_of(roster));
}

bool Reign::is_ours(const Pledge& pledge) const {
  return !enabled() || pledge.term < in_use_.term ||
         (pledge.term == in_use_.term && pledge.to == self_);
}

/// A promise of a later term, be it to itself, may hide another one of a term in between. To have
/// followed a coordinator whose job this one goes on with binds to nobody.
Standing Reign::standing_of(const Pledge& pledge, const std::optional<Past>& past) const {
  if (begun() && !knows(pledge.roster)) {
    return Standing::beyond;
  }
  const bool goes_on = !begun() && past && pledge.term <= past->term;
  return is_ours(pledge) || goes_on ? Standing::free : Standing::bound;
}

void Reign::note_past(NodeId node, const Here& here, const Pledge& pledge, const Past& past) {
  if (!past_ || past.roster > past_->roster) {
    forget_past();
    past_ = past;
    newest_roster_ = std::max(newest_roster_, past.roster);
    horizon_ = {past.roster, past.roster, {}};
  }
  past_dead_.erase(here.elector);
  if (past.roster == past_->roster && knows(pledge.roster)) {
    of_past_.insert(node);
    ++past_count(here.standing);
  }
  // As a candidate does: a later term, and for every term in between two numbers are left out.
  in_use_.term = std::max(in_use_.term, Term{number(past.term) + 1});
  const std::uint32_t skipped = 2 * (number(in_use_.term) - number(past.term));
  next_ = std::max(next_, AttemptNumber{number(past.attempt) + skipped});
}

std::size_t& Reign::past_count(Standing standing) {
  return standing == Standing::free ? past_here_.free : past_here_.bound;
}

void Reign::forget_past() {
  past_.reset();
  of_past_.clear();
  past_dead_.clear();
  past_here_ = {};
}

void Reign::left(NodeId node, bool died) {
  drop_plan();
  std::erase(standbys_, node);
  const auto found = here_.find(node);
  if (found == here_.end()) {
    return;
  }
  const Here here = found->second;
  here_.erase(found);
  backing_.went(here.elector, here.standing);
  const bool dead = died && here.standing == Standing::free;
  if (dead) {
    backing_.died(here.elector);
  }
  if (of_past_.erase(node) > 0) {
    --past_count(here.standing);
    if (dead) {
      past_dead_.insert(here.elector);
    }
  }
}

// --- Who decides ----------------------------------------------------------------------------

/// Who decides about the next world: the roster in use, or who was told to be in the first.
const Roster& Reign::basis() const {
  return begun() ? in_use_.roster : told_first_;
}

/// With those that may have been in use instead of what a successor inherited.
std::vector<const Roster*> Reign::deciders() const {
  std::vector<const Roster*> all = in_use_.rosters();
  all.front() = &basis();
  return all;
}

std::vector<const Roster*> Reign::acquainted() const {
  std::vector<const Roster*> all = deciders();
  all.push_back(&replaced_);
  return all;
}

bool Reign::decides(const Roster& roster, const Count& count) const {
  const std::size_t all = roster.electors.size();
  return all == 0 || keeps_quorum(count.free, all, holds(roster, self_)) ||
         gains_quorum(count.free + count.bound, all);
}

/// Of a job that others ran before, and of which this coordinator knows by them alone: a
/// coordinator that was at this very endpoint is no more, and its vote is ours.
bool Reign::past_decides(const Count& count) const {
  if (begun() || !past_) {
    return true;
  }
  const auto all = static_cast<std::size_t>(past_->electors);
  const std::size_t ours = past_dead_.size() + (past_->at_endpoint ? 1 : 0);
  return keeps_quorum(count.free + ours, all, past_->at_endpoint) ||
         gains_quorum(count.free + count.bound + ours, all);
}

bool Reign::quorum_follows() const {
  if (!enabled()) {
    return true;
  }
  const auto all = deciders();
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (!decides(*all[place], backing_.count(place))) {
      return false;
    }
  }
  return past_decides(past_here_);
}

bool Reign::is_free(NodeId node) const {
  const auto found = here_.find(node);
  return found != here_.end() && found->second.standing == Standing::free;
}

bool Reign::outdated() const {
  return enabled() && beyond_ && !knows(*beyond_) && !quorum_follows();
}

bool Reign::needs_nobody() const {
  return !enabled() || keeps_quorum(1 + dead().size(), basis().electors.size(), true);
}

std::string Reign::quorum_text() const {
  const auto rosters = deciders();
  std::size_t place = 0;  // the first that is not enough
  while (place + 1 < rosters.size() && decides(*rosters[place], backing_.count(place))) {
    ++place;
  }
  Count here = backing_.count(place);
  std::size_t all = rosters[place]->electors.size();
  bool half = holds(*rosters[place], self_);
  if (!past_decides(past_here_)) {
    here = past_here_;
    here.free += past_dead_.size() + (past_->at_endpoint ? 1 : 0);
    all = static_cast<std::size_t>(past_->electors);
    half = past_->at_endpoint;
  }
  const std::size_t needed = half && here.bound == 0 ? (all + 1) / 2 : all / 2 + 1;
  return std::to_string(here.free + here.bound) + " of the " + std::to_string(all) +
         " nodes that decide for the job are here, " + std::to_string(needed) + " are needed";
}

// --- Plans ----------------------------------------------------------------------------------

/// One that everybody who is here may prepare for, and who has prepared for a plan that was
/// dropped.
Term Reign::next_term() const {
  Term term = std::max(in_use_.term, planned_term_);
  for (const auto& [node, one] : here_) {
    if (one.above >= term) {
      term = Term{number(one.above) + 1};
    }
  }
  return term;
}

Roster Reign::roster_of(const std::vector<NodeId>& members,
                        const std::vector<NodeId>& witnesses) const {
  Roster roster;
  for (const auto* group : {&members, &witnesses}) {
    for (const NodeId node : *group) {
      roster.electors.push_back(here_.at(node).elector);
    }
  }
  std::sort(roster.electors.begin(), roster.electors.end());
  // A node may be here twice, before its old connection is known to be gone: it votes once.
  roster.electors.erase(std::unique(roster.electors.begin(), roster.electors.end()),
                        roster.electors.end());
  return roster;
}

std::optional<Reign::Plan> Reign::plan(const std::vector<NodeId>& members,
                                       const std::vector<NodeId>& witnesses) {
  drop_plan();
  if (!enabled()) {
    return std::nullopt;
  }
  Roster roster = roster_of(members, witnesses);
  planned_term_ = next_term();
  // What was told of a plan that came to nothing stays told: then even the roster in use has to be
  // announced anew.
  if (has_planned_ && planned_term_ == in_use_.term && !beyond_ &&
      roster.electors == in_use_.roster.electors && newest_roster_ == in_use_.roster.number) {
    return std::nullopt;
  }
  return announce(std::move(roster), members, witnesses);
}

std::optional<Reign::Plan> Reign::plan_end(const std::vector<NodeId>& members,
                                           const std::vector<NodeId>& witnesses) {
  drop_plan();
  if (!enabled() || (basis().electors.empty() && !past_)) {
    return std::nullopt;
  }
  planned_term_ = next_term();
  Plan plan = announce(roster_of(members, witnesses), members, witnesses);
  plan.succession.ends = true;
  return plan;
}

/// In planned_term_.
Reign::Plan Reign::announce(Roster roster, const std::vector<NodeId>& members,
                            const std::vector<NodeId>& witnesses) {
  newest_roster_ = next_roster(newest_roster_, planned_term_, self_);
  roster.number = newest_roster_;
  own_terms_.insert(planned_term_);
  planned_ = std::move(roster);
  Plan plan;
  for (const auto* group : {&members, &witnesses}) {
    for (const NodeId node : *group) {
      if (here_.at(node).elector != self_ && plan.standbys.size() < kStandbysMax) {
        plan.standbys.push_back(node);
      }
    }
  }
  standbys_ = plan.standbys;
  owe_.insert(plan.standbys.begin(), plan.standbys.end());
  plan.succession = {planned_term_,    in_use_.term, self_, in_use_.attempt, *planned_, {},
                     horizon_.settled, false};
  for (const Roster* one : deciders()) {
    if (!one->electors.empty()) {
      plan.succession.before.push_back(*one);
    }
  }
  if (basis().electors.empty() && !plan.standbys.empty()) {
    told_first_ = *planned_;
    backing_.use(deciders());
  }
  return plan;
}

void Reign::drop_plan() {
  planned_.reset();
  owe_.clear();
  preparing_ = false;
  prepared_.clear();
  ready_ = {};
}

Reign::Step Reign::after_standbys() {
  if (!planned_ || preparing_ || !owe_.empty()) {
    return Step::wait;
  }
  preparing_ = true;
  for (const Roster* roster : deciders()) {
    Count& count = ready_.deciders.emplace_back();
    for (const ElectorId one : dead()) {
      count.free += holds(*roster, one) ? 1 : 0;
    }
  }
  return Step::prepare;
}

Reign::Step Reign::standby_knows(NodeId node, RosterNumber roster) {
  if (!planned_ || planned_->number != roster || owe_.erase(node) == 0) {
    return Step::wait;
  }
  return after_standbys();
}

/// Whoever is only believed to be here may be standing for it by now: who has prepared is not.
Reign::Step Reign::prepared(NodeId node, RosterNumber roster) {
  const auto found = here_.find(node);
  if (found == here_.end()) {
    return Step::wait;
  }
  if (!planned_ || planned_->number != roster || !preparing_) {
    if (begun() && roster == in_use_.roster.number) {
      release(found->second);  // it comes late: others were enough
    }
    return Step::wait;
  }
  if (prepared_.insert(found->second.elector).second) {
    count_ready(found->second);
    if (of_past_.contains(node)) {
      ++(found->second.standing == Standing::free ? ready_.past.free : ready_.past.bound);
    }
  }
  bool enough = past_decides(ready_.past) && decides(*planned_, {ready_.planned, 0});
  const auto all = deciders();
  for (std::size_t place = 0; place < all.size(); ++place) {
    enough = enough && decides(*all[place], ready_.deciders[place]);
  }
  return enough ? Step::hand_out : Step::wait;
}

void Reign::count_ready(const Here& here) {
  ready_.planned += holds(*planned_, here.elector) ? 1 : 0;
  if (here.standing == Standing::beyond) {
    return;
  }
  const auto all = deciders();
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (holds(*all[place], here.elector)) {
      Count& count = ready_.deciders[place];
      ++(here.standing == Standing::free ? count.free : count.bound);
    }
  }
}

/// It has prepared in this term: it is bound to nobody else any more.
void Reign::release(Here& here) {
  here.above = {};
  if (here.standing != Standing::free) {
    backing_.went(here.elector, here.standing);
    here.standing = Standing::free;
    backing_.came(here.elector, here.standing);
  }
}

void Reign::handed_out(AttemptNumber attempt) {
  if (planned_) {
    for (auto& [node, one] : here_) {
      if (prepared_.contains(one.elector)) {
        release(one);
      }
    }
    in_use_.term = in_use_.since = planned_term_;
    replaced_ = std::exchange(in_use_.roster, std::move(*planned_));
    in_use_.settled = in_use_.roster.number;
    told_first_ = {};
    has_planned_ = true;
    horizon_ = {in_use_.roster.number, in_use_.roster.number, {}};
    beyond_.reset();
    drop_plan();
  }
  in_use_.before.clear();
  in_use_.attempt = attempt;
  next_ = AttemptNumber{number(attempt) + 1};
  forget_past();
  backing_.use(deciders());
  backing_.forget_others();
}

}  // namespace ddprun
