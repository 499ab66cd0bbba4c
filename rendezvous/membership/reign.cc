#include "rendezvous/membership/reign.h"

#include <algorithm>
#include <string>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {
namespace {

bool holds(const Roster& roster, ElectorId elector) {
  return std::binary_search(roster.electors.begin(), roster.electors.end(), elector);
}

}  // namespace

Reign::Reign(Term term, ElectorId self, Succession known, AttemptNumber first)
    : self_(self), in_use_(std::move(known)), newest_roster_(in_use_.roster.number), next_(first) {
  in_use_.term = term;
  in_use_.coordinator = self;
  inherited_before_ = in_use_.roster_before;
}

void Reign::joined(NodeId node, ElectorId elector, const std::optional<Past>& past,
                   const std::vector<FormerElector>& former) {
  here_[node] = elector;
  dead_.erase(elector);
  for (const FormerElector& one : former) {
    given_up_[one.elector].insert(one.promised_to);
  }
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
  const auto found = here_.find(node);
  if (found != here_.end() && died &&
      (holds(basis(), found->second) || holds(inherited_before_, found->second))) {
    dead_.insert(found->second);
  }
  here_.erase(node);
  std::erase(standbys_, node);
  of_past_.erase(node);
  owe_.erase(node);
  prepared_.erase(node);
}

/// Who decides about the next world: the roster in use, or who was told to be in the first.
const Roster& Reign::basis() const {
  return in_use_.roster.electors.empty() ? told_first_ : in_use_.roster;
}

/// It will not vote for another coordinator, nor can a vote that it gave be of use to one.
bool Reign::is_ours(ElectorId elector) const {
  if (dead_.contains(elector)) {
    return true;
  }
  const auto found = given_up_.find(elector);
  return found != given_up_.end() &&
         std::all_of(found->second.begin(), found->second.end(), [this](ElectorId candidate) {
           return number(candidate) == 0 || dead_.contains(candidate) ||
                  given_up_.contains(candidate) || candidate == self_;
         });
}

std::size_t Reign::here_of(const Roster& roster, const std::set<NodeId>* only) const {
  std::set<ElectorId> here;
  for (const auto& [node, elector] : here_) {
    if (only == nullptr || only->contains(node)) {
      here.insert(elector);
    }
  }
  return static_cast<std::size_t>(
      std::count_if(roster.electors.begin(), roster.electors.end(),
                    [&](ElectorId one) { return here.contains(one) || is_ours(one); }));
}

bool Reign::keeps(const Roster& roster, const std::set<NodeId>* only) const {
  return !enabled() || roster.electors.empty() ||
         keeps_quorum(here_of(roster, only), roster.electors.size(), holds(roster, self_));
}

bool Reign::keeps_basis(const std::set<NodeId>* only) const {
  return keeps(basis(), only) && keeps(inherited_before_, only);
}

bool Reign::quorum_follows() const {
  const bool of_past = deciders_here() >= needed();
  return !enabled() || (of_past && keeps_basis(nullptr));
}

bool Reign::needs_nobody() const {
  return !enabled() || keeps_quorum(1 + dead_.size(), basis().electors.size(), true);
}

/// Of a job that others ran before, and of which this coordinator knows by them alone: a
/// coordinator that was at this very endpoint is no more, and its vote is ours.
std::size_t Reign::deciders_here() const {
  if (in_use_.roster.electors.empty() && past_) {
    return of_past_.size() + (past_->at_endpoint ? 1 : 0);
  }
  return here_of(basis(), nullptr);
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
    here = here_of(inherited_before_, nullptr);
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
  prepared_.insert(node);
  return keeps_basis(&prepared_) && keeps(*planned_, &prepared_) ? Step::hand_out : Step::wait;
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
  std::erase_if(dead_, [this](ElectorId one) { return !holds(in_use_.roster, one); });
  std::erase_if(given_up_, [this](const auto& one) { return !holds(in_use_.roster, one.first); });
}

}  // namespace ddprun
