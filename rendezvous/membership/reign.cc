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
  inherited_before_ = in_use_.roster_before;
  backing_.use(basis(), inherited_before_);
}

void Reign::joined(NodeId node, ElectorId elector, const std::optional<Past>& past,
                   const std::vector<FormerElector>& former) {
  DDP_CHECK(!here_.contains(node), "a node joins once");
  here_[node] = elector;
  backing_.came(elector);
  for (const FormerElector& one : former) {
    note_term(one.followed);
    backing_.gave_up(one.elector, one.promised_to);
  }
  note_term(past ? past->term : Term{});
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

/// One that has begun is no more the coordinator once anybody has followed a later one: then the
/// votes that it counts on were used up. One that begins goes on from there.
void Reign::note_term(Term followed) {
  outdated_ = outdated_ || (followed > in_use_.term && !in_use_.roster.electors.empty());
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

/// Who decides about the next world: the roster in use, or who was told to be in the first.
const Roster& Reign::basis() const {
  return in_use_.roster.electors.empty() ? told_first_ : in_use_.roster;
}

/// Whoever is only believed to be here may be standing for it by now: who has prepared is not.
bool Reign::is_ours(ElectorId elector) const {
  return backing_.is_ours(elector,
                          [this](ElectorId candidate) { return prepared_.contains(candidate); });
}

std::size_t Reign::ready_of(const Roster& roster) const {
  return static_cast<std::size_t>(
      std::count_if(roster.electors.begin(), roster.electors.end(),
                    [this](ElectorId one) { return prepared_.contains(one) || is_ours(one); }));
}

/// A walk over all: where the plan begins, and for a change of who is here meanwhile.
void Reign::count_ready() {
  if (planned_ && preparing_) {
    ready_ = {ready_of(basis()), ready_of(inherited_before_), ready_of(*planned_)};
  }
}

void Reign::one_ready(ElectorId elector) {
  const bool was_ours = is_ours(elector);
  if (!prepared_.insert(elector).second) {
    return;
  }
  if (backing_.has_votes(elector)) {
    count_ready();  // those who voted for it are ready, too
  } else if (!was_ours) {
    ready_.basis += holds(basis(), elector) ? 1 : 0;
    ready_.before += holds(inherited_before_, elector) ? 1 : 0;
    ready_.planned += holds(*planned_, elector) ? 1 : 0;
  }
}

bool Reign::keeps(const Roster& roster, std::size_t votes) const {
  return !enabled() || roster.electors.empty() ||
         keeps_quorum(votes, roster.electors.size(), holds(roster, self_));
}

bool Reign::quorum_follows() const {
  return !enabled() || (!outdated_ && deciders_here() >= needed() &&
                        keeps(basis(), backing_.count(Backing::Which::basis)) &&
                        keeps(inherited_before_, backing_.count(Backing::Which::beside)));
}

bool Reign::needs_nobody() const {
  return !enabled() || keeps_quorum(1 + dead().size(), basis().electors.size(), true);
}

/// Of a job that others ran before, and of which this coordinator knows by them alone: a
/// coordinator that was at this very endpoint is no more, and its vote is ours.
std::size_t Reign::deciders_here() const {
  if (in_use_.roster.electors.empty() && past_) {
    return of_past_.size() + (past_->at_endpoint ? 1 : 0);
  }
  return backing_.count(Backing::Which::basis);
}

std::size_t Reign::needed() const {
  const bool of_past = in_use_.roster.electors.empty() && past_;
  const std::size_t all =
      of_past ? static_cast<std::size_t>(past_->electors) : basis().electors.size();
  const bool half = of_past ? past_->at_endpoint : holds(basis(), self_);
  return all == 0 ? 0 : half ? (all + 1) / 2 : all / 2 + 1;
}

std::string Reign::quorum_text() const {
  std::size_t here = deciders_here();
  std::size_t wanted = needed();
  std::size_t all = in_use_.roster.electors.empty() && past_
                        ? static_cast<std::size_t>(past_->electors)
                        : basis().electors.size();
  if (here >= wanted && !inherited_before_.electors.empty()) {
    here = backing_.count(Backing::Which::beside);
    all = inherited_before_.electors.size();
    wanted = holds(inherited_before_, self_) ? (all + 1) / 2 : all / 2 + 1;
  }
  return std::to_string(here) + " of the " + std::to_string(all) +
         " nodes that decide for the job are here, " + std::to_string(wanted) + " are needed";
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
  // A node may be here twice, before its old connection is known to be gone: it votes once.
  roster.electors.erase(std::unique(roster.electors.begin(), roster.electors.end()),
                        roster.electors.end());
  // What was told of a plan that came to nothing stays told: then even the roster in use has to be
  // announced anew.
  if (roster.electors == in_use_.roster.electors && newest_roster_ == in_use_.roster.number &&
      inherited_before_.electors.empty()) {
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
  plan.succession = {in_use_.term, self_, in_use_.attempt, *planned_, basis()};
  if (basis().electors.empty() && !plan.standbys.empty()) {
    told_first_ = *planned_;
    backing_.use(basis(), inherited_before_);
  }
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
  const bool enough = !outdated_ && keeps(basis(), ready_.basis) &&
                      keeps(inherited_before_, ready_.before) && keeps(*planned_, ready_.planned);
  return enough ? Step::hand_out : Step::wait;
}

void Reign::handed_out(AttemptNumber attempt) {
  if (planned_) {
    in_use_.roster_before = basis();
    in_use_.roster = std::move(*planned_);
    told_first_ = {};
    drop_plan();
  }
  inherited_before_ = {};
  in_use_.attempt = attempt;
  next_ = AttemptNumber{number(attempt) + 1};
  past_.reset();
  of_past_.clear();
  backing_.use(basis(), inherited_before_);
  backing_.forget_others();
}

}  // namespace ddprun
