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
      next_(first),
      backing_(self) {
  in_use_.term = term;
  in_use_.coordinator = self;
  backing_.use(in_use_.roster);
}

void Reign::joined(NodeId node, ElectorId elector, const std::optional<Past>& past,
                   const std::vector<FormerElector>& former) {
  DDP_CHECK(!here_.contains(node), "a node joins once");
  here_[node] = elector;
  backing_.came(elector);
  for (const FormerElector& one : former) {
    backing_.gave_up(one.elector, one.promised_to);
  }
  count_ready();
  if (!past || !enabled() || !in_use_.roster.electors.empty() || past->electors < 1) {
    return;
  }
  if (!past_ || past->roster > past_->roster) {
    past_ = past;
    of_past_.clear();
    newest_roster_ = std::max(newest_roster_, past->roster);
  }
  if (past->roster == past_->roster) {
    of_past_.insert(node);
  }
  // As a candidate does: a later term, and for every term in between two numbers are left out.
  in_use_.term = std::max(in_use_.term, Term{number(past->term) + 1});
  const std::uint32_t skipped = 2 * (number(in_use_.term) - number(past->term));
  next_ = std::max(next_, AttemptNumber{number(past->attempt) + skipped});
}

void Reign::left(NodeId node, bool died) {
  if (const auto found = here_.find(node); found != here_.end()) {
    const ElectorId elector = found->second;
    here_.erase(found);
    backing_.went(elector);
    if (died) {
      backing_.died(elector);
    }
    prepared_.erase(elector);
  }
  std::erase(standbys_, node);
  of_past_.erase(node);
  owe_.erase(node);
  count_ready();
}

std::size_t Reign::ready_of(const Roster& roster) const {
  return static_cast<std::size_t>(std::count_if(
      roster.electors.begin(), roster.electors.end(),
      [this](ElectorId one) { return prepared_.contains(one) || backing_.is_ours(one); }));
}

/// A walk over all: where the plan begins, and for a change of who is here meanwhile.
void Reign::count_ready() {
  if (planned_ && preparing_) {
    ready_in_use_ = ready_of(in_use_.roster);
    ready_planned_ = ready_of(*planned_);
  }
}

void Reign::one_ready(ElectorId elector) {
  if (prepared_.insert(elector).second && !backing_.is_ours(elector)) {
    ready_in_use_ += holds(in_use_.roster, elector) ? 1 : 0;
    ready_planned_ += holds(*planned_, elector) ? 1 : 0;
  }
}

bool Reign::keeps(const Roster& roster, std::size_t ready) const {
  return !enabled() || roster.electors.empty() ||
         keeps_quorum(ready, roster.electors.size(), holds(roster, self_));
}

bool Reign::quorum_follows() const {
  return !enabled() || deciders_here() >= needed();
}

bool Reign::needs_nobody() const {
  return !enabled() || keeps_quorum(1 + dead().size(), in_use_.roster.electors.size(), true);
}

/// Of a job that others ran before, and of which this coordinator knows by them alone: a
/// coordinator that was at this very endpoint is no more, and its vote is ours.
std::size_t Reign::deciders_here() const {
  if (in_use_.roster.electors.empty()) {
    return past_ ? of_past_.size() + (past_->at_endpoint ? 1 : 0) : 0;
  }
  return backing_.count();
}

std::size_t Reign::needed() const {
  const Roster& roster = in_use_.roster;
  const std::size_t all = roster.electors.empty() && past_
                              ? static_cast<std::size_t>(past_->electors)
                              : roster.electors.size();
  const bool half = roster.electors.empty() ? past_ && past_->at_endpoint : holds(roster, self_);
  return all == 0 ? 0 : half ? (all + 1) / 2 : all / 2 + 1;
}

std::string Reign::quorum_text() const {
  const std::size_t all = in_use_.roster.electors.empty() && past_
                              ? static_cast<std::size_t>(past_->electors)
                              : in_use_.roster.electors.size();
  return std::to_string(deciders_here()) + " of the " + std::to_string(all) +
         " nodes that decide for the job are here, " + std::to_string(needed()) + " are needed";
}

std::optional<Reign::Plan> Reign::plan(const std::vector<NodeId>& members,
                                       const std::vector<NodeId>& witnesses) {
  drop_plan();
  if (!enabled()) {
    return std::nullopt;
  }
  Roster roster;
  for (const auto* group : {&members, &witnesses}) {
    for (const NodeId node : *group) {
      roster.electors.push_back(here_.at(node));
    }
  }
  std::sort(roster.electors.begin(), roster.electors.end());
  // What was told of a plan that came to nothing stays told: then even the roster in use has to be
  // announced anew.
  if (roster.electors == in_use_.roster.electors && newest_roster_ == in_use_.roster.number) {
    return std::nullopt;
  }
  newest_roster_ = RosterNumber{number(newest_roster_) + 1};
  roster.number = newest_roster_;
  planned_ = std::move(roster);
  Plan plan;
  for (const auto* group : {&members, &witnesses}) {
    for (const NodeId node : *group) {
      if (here_.at(node) != self_ && plan.standbys.size() < kStandbysMax) {
        plan.standbys.push_back(node);
      }
    }
  }
  standbys_ = plan.standbys;
  owe_.insert(plan.standbys.begin(), plan.standbys.end());
  plan.succession = {in_use_.term, self_, in_use_.attempt, *planned_, in_use_.roster};
  return plan;
}

void Reign::drop_plan() {
  planned_.reset();
  owe_.clear();
  preparing_ = false;
  prepared_.clear();
}

Reign::Step Reign::after_standbys() {
  if (!planned_ || preparing_ || !owe_.empty()) {
    return Step::wait;
  }
  preparing_ = true;
  count_ready();
  return Step::prepare;
}

Reign::Step Reign::standby_knows(NodeId node, RosterNumber roster) {
  if (!planned_ || planned_->number != roster || owe_.erase(node) == 0) {
    return Step::wait;
  }
  return after_standbys();
}

Reign::Step Reign::prepared(NodeId node, RosterNumber roster) {
  if (!planned_ || planned_->number != roster || !preparing_ || !here_.contains(node)) {
    return Step::wait;
  }
  one_ready(here_.at(node));
  return keeps(in_use_.roster, ready_in_use_) && keeps(*planned_, ready_planned_) ? Step::hand_out
                                                                                  : Step::wait;
}

void Reign::handed_out(AttemptNumber attempt) {
  if (planned_) {
    in_use_.roster_before = std::move(in_use_.roster);
    in_use_.roster = std::move(*planned_);
    drop_plan();
  }
  in_use_.attempt = attempt;
  next_ = AttemptNumber{number(attempt) + 1};
  past_.reset();
  of_past_.clear();
  backing_.use(in_use_.roster);
}

}  // namespace ddprun
