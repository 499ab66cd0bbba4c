#include "rendezvous/membership/leadership.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {

Leadership::Leadership(Term term, VoterId self, ReplicatedState known, AttemptNumber first)
    : self_(self),
      in_use_(std::move(known)),
      newest_configuration_(in_use_.configuration.number),
      log_position_(in_use_.log_position()),
      next_(first) {
  in_use_.term = in_use_.since = term;
  in_use_.coordinator = self;
  tally_.use(deciders());
}

// --- Who is here ----------------------------------------------------------------------------

void Leadership::joined(NodeId node, VoterId voter, const Promise& promise,
                        const std::optional<Past>& past) {
  DDP_CHECK(!here_.contains(node), "a node joins once");
  drop_plan();
  const Here here{voter, standing_of(promise, past), is_ours(promise) ? Term{} : promise.term};
  here_[node] = here;
  tally_.came(voter, here.standing);
  if (past && enabled() && !begun() && !is_own(past->configuration)) {
    note_past(node, here, promise, *past);
  }
  if (past && enabled()) {
    // Also of a job that this coordinator knows nothing of: an agent's attempt numbers only rise.
    next_ = std::max(next_, AttemptNumber{number(past->attempt) + 1});
  }
  if (!knows(promise.configuration)) {
    beyond_ = std::max(beyond_.value_or(ConfigurationNumber{}), promise.configuration);
  }
}

bool Leadership::knows(ConfigurationNumber configuration) const {
  return log_position_.covers(configuration) || is_own(configuration);
}

bool Leadership::is_own(ConfigurationNumber configuration) const {
  const ConfigurationNumber own =
      make_configuration(term_of(configuration), self_, count_of(configuration));
  return configuration == own && own_terms_.contains(term_of(configuration));
}

bool Leadership::is_ours(const Promise& promise) const {
  return !enabled() || promise.term < in_use_.term ||
         (promise.term == in_use_.term && promise.to == self_);
}

/// A promise for a later term counts as foreign even if it names this node: it may have overwritten
/// one for a term in between. A node is unbound when its last leader's job is the one we resume.
VoterState Leadership::standing_of(const Promise& promise, const std::optional<Past>& past) const {
  if (begun() && !knows(promise.configuration)) {
    return VoterState::beyond;
  }
  const bool goes_on = !begun() && past && promise.term <= past->term;
  return is_ours(promise) || goes_on ? VoterState::free : VoterState::bound;
}

void Leadership::note_past(NodeId node, const Here& here, const Promise& promise,
                           const Past& past) {
  if (!past_ || past.configuration > past_->configuration) {
    forget_past();
    past_ = past;
    newest_configuration_ = std::max(newest_configuration_, past.configuration);
    log_position_ = {past.configuration, past.configuration, {}};
  }
  past_dead_.erase(here.voter);
  if (past.configuration == past_->configuration && knows(promise.configuration)) {
    // It may be here by several connections, of which it gave up all but one: it counts once.
    std::set<NodeId>& connections = of_past_[here.voter];
    if (!connections.empty()) {
      --past_count(here_.at(*connections.rbegin()).standing);
    }
    connections.insert(node);
    ++past_count(here_.at(*connections.rbegin()).standing);
    past_saw_close_ = past_saw_close_ || past.saw_close;
  }
  // As a candidate does: a later term, and for every term in between two numbers are left out.
  in_use_.term = std::max(in_use_.term, Term{number(past.term) + 1});
  const std::uint32_t skipped = 2 * (number(in_use_.term) - number(past.term));
  next_ = std::max(next_, AttemptNumber{number(past.attempt) + skipped});
}

bool Leadership::is_of_past(NodeId node, VoterId voter) const {
  const auto found = of_past_.find(voter);
  return found != of_past_.end() && found->second.contains(node);
}

std::size_t& Leadership::past_count(VoterState standing) {
  return standing == VoterState::free ? past_here_.free : past_here_.bound;
}

void Leadership::forget_past() {
  past_.reset();
  of_past_.clear();
  past_saw_close_ = false;
  past_dead_.clear();
  past_here_ = {};
}

void Leadership::left(NodeId node, bool died) {
  drop_plan();
  std::erase(standbys_, node);
  const auto found = here_.find(node);
  if (found == here_.end()) {
    return;
  }
  const Here here = found->second;
  here_.erase(found);
  tally_.went(here.voter, here.standing);
  const bool dead = died && here.standing == VoterState::free;
  if (dead) {
    tally_.died(here.voter);
  }
  if (is_of_past(node, here.voter)) {
    std::set<NodeId>& connections = of_past_.at(here.voter);
    const bool was_newest = *connections.rbegin() == node;
    connections.erase(node);
    if (was_newest) {
      --past_count(here.standing);
    }
    if (was_newest && !connections.empty()) {
      ++past_count(here_.at(*connections.rbegin()).standing);
    }
    if (connections.empty()) {
      of_past_.erase(here.voter);
    }
    if (dead) {
      past_dead_.insert(here.voter);
    }
  }
}

// --- Who decides ----------------------------------------------------------------------------

/// Who decides about the next world: the configuration in use, or who was told to be in the first.
const Configuration& Leadership::basis() const {
  return begun() ? in_use_.configuration : told_first_;
}

/// With those that may have been in use instead of what a successor inherited.
std::vector<const Configuration*> Leadership::deciders() const {
  std::vector<const Configuration*> all = in_use_.configurations();
  all.front() = &basis();
  return all;
}

std::vector<const Configuration*> Leadership::acquainted() const {
  std::vector<const Configuration*> all = deciders();
  all.push_back(&replaced_);
  return all;
}

bool Leadership::decides(const Configuration& configuration, const Count& count) const {
  const std::size_t all = configuration.voters.size();
  return all == 0 || keeps_quorum(count.free, all, holds(configuration, self_)) ||
         gains_quorum(count.free + count.bound, all);
}

/// Of a job that others ran before, and of which this coordinator knows by them alone. The one
/// before it is no more where it was at this very endpoint, or where its death was seen. In the
/// second case it led until it died: it voted for nobody, and its vote is ours. Otherwise it may
/// have voted for a successor; but where half of the voters are here without it, the rest is no
/// majority, and where all are, none of them leads. One of them has to be here in any case: else
/// nobody would remember what this coordinator does.
bool Leadership::past_decides(const Count& count) const {
  if (begun() || !past_) {
    return true;
  }
  const auto all = static_cast<std::size_t>(past_->voters);
  const std::size_t gone = past_leader_is_gone() ? 1 : 0;
  const std::size_t credit = past_saw_close_ ? 1 : 0;
  const std::size_t free = count.free + past_dead_.size();
  return count.free + count.bound > 0 &&
         (keeps_quorum(free + credit, all, gone > 0) ||
          gains_quorum(free + credit + count.bound, all) || free + count.bound + gone >= all);
}

bool Leadership::past_leader_is_gone() const {
  return past_->at_endpoint || past_saw_close_;
}

/// A coordinator of two nodes may have gone on with another one than the one that is here, by its
/// own vote alone. With more, those that are here would have had to prepare for that.
bool Leadership::past_is_here() const {
  if (begun() || !past_) {
    return true;
  }
  const std::size_t known = of_past_.size() + past_dead_.size() + (past_leader_is_gone() ? 1 : 0);
  return known >= static_cast<std::size_t>(past_->voters) && (past_->voters > 2 || past_saw_close_);
}

bool Leadership::quorum_follows() const {
  if (!enabled()) {
    return true;
  }
  const auto all = deciders();
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (!decides(*all[place], tally_.count(place))) {
      return false;
    }
  }
  return past_decides(past_here_);
}

bool Leadership::is_free(NodeId node) const {
  const auto found = here_.find(node);
  return found != here_.end() && found->second.standing == VoterState::free;
}

bool Leadership::outdated() const {
  return enabled() && beyond_ && !knows(*beyond_) && !quorum_follows();
}

bool Leadership::needs_nobody() const {
  return !enabled() || keeps_quorum(1 + dead().size(), basis().voters.size(), true);
}

std::string Leadership::quorum_text() const {
  const auto configurations = deciders();
  std::size_t place = 0;  // the first that is not enough
  while (place + 1 < configurations.size() &&
         decides(*configurations[place], tally_.count(place))) {
    ++place;
  }
  Count here = tally_.count(place);
  std::size_t all = configurations[place]->voters.size();
  bool half = holds(*configurations[place], self_);
  if (!past_decides(past_here_)) {
    here = past_here_;
    here.free += past_dead_.size() + (past_saw_close_ ? 1 : 0);
    all = static_cast<std::size_t>(past_->voters);
    half = past_leader_is_gone();
  }
  const std::size_t needed = half && here.bound == 0 ? (all + 1) / 2 : all / 2 + 1;
  return std::to_string(here.free + here.bound) + " of the " + std::to_string(all) +
         " nodes that decide for the job are here, " + std::to_string(needed) + " are needed";
}

// --- Plans ----------------------------------------------------------------------------------

/// One that everybody who is here may prepare for, and who has prepared for a plan that was
/// dropped.
Term Leadership::next_term() const {
  Term term = std::max(in_use_.term, planned_term_);
  for (const auto& [node, one] : here_) {
    if (one.above >= term) {
      term = Term{number(one.above) + 1};
    }
  }
  return term;
}

Configuration Leadership::configuration_of(const std::vector<NodeId>& members,
                                           const std::vector<NodeId>& witnesses) const {
  Configuration configuration;
  for (const auto* group : {&members, &witnesses}) {
    for (const NodeId node : *group) {
      configuration.voters.push_back(here_.at(node).voter);
    }
  }
  std::sort(configuration.voters.begin(), configuration.voters.end());
  // A node may be here twice, before its old connection is known to be gone: it votes once.
  configuration.voters.erase(std::unique(configuration.voters.begin(), configuration.voters.end()),
                             configuration.voters.end());
  return configuration;
}

std::optional<Leadership::Plan> Leadership::plan(const std::vector<NodeId>& members,
                                                 const std::vector<NodeId>& witnesses) {
  drop_plan();
  if (!enabled()) {
    return std::nullopt;
  }
  Configuration configuration = configuration_of(members, witnesses);
  planned_term_ = next_term();
  // What was told of a plan that came to nothing stays told: then even the configuration in use has
  // to be announced anew.
  if (has_planned_ && planned_term_ == in_use_.term && !beyond_ &&
      configuration.voters == in_use_.configuration.voters &&
      newest_configuration_ == in_use_.configuration.number) {
    return std::nullopt;
  }
  return announce(std::move(configuration), members, witnesses);
}

std::optional<Leadership::Plan> Leadership::plan_end(const std::vector<NodeId>& members,
                                                     const std::vector<NodeId>& witnesses) {
  drop_plan();
  if (!enabled() || (basis().voters.empty() && !past_)) {
    return std::nullopt;
  }
  planned_term_ = next_term();
  Plan plan = announce(configuration_of(members, witnesses), members, witnesses);
  plan.replicated.ends = true;
  return plan;
}

/// Witnesses are there for this, and elsewhere. The members are spread over the order of ranks:
/// neighbours in it may share a rack with each other and with the coordinator. They stand first,
/// for a witness need not be a machine that can serve the store of the job.
std::vector<NodeId> Leadership::choose_standbys(const std::vector<NodeId>& members,
                                                const std::vector<NodeId>& witnesses) const {
  const auto others = [this](const std::vector<NodeId>& nodes) {
    std::vector<NodeId> found;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(found),
                 [this](NodeId node) { return here_.at(node).voter != self_; });
    return found;
  };
  std::vector<NodeId> watching = others(witnesses);
  watching.resize(std::min(watching.size(), kStandbysMax));
  const std::vector<NodeId> working = others(members);
  const std::size_t count = std::min(kStandbysMax - watching.size(), working.size());
  std::vector<NodeId> chosen;
  for (std::size_t i = 1; i <= count; ++i) {
    chosen.push_back(working[i * working.size() / (count + 1)]);
  }
  chosen.insert(chosen.end(), watching.begin(), watching.end());
  return chosen;
}

/// In planned_term_.
Leadership::Plan Leadership::announce(Configuration configuration,
                                      const std::vector<NodeId>& members,
                                      const std::vector<NodeId>& witnesses) {
  newest_configuration_ = next_configuration(newest_configuration_, planned_term_, self_);
  configuration.number = newest_configuration_;
  own_terms_.insert(planned_term_);
  planned_ = std::move(configuration);
  Plan plan;
  plan.standbys = choose_standbys(members, witnesses);
  standbys_ = plan.standbys;
  owe_.insert(plan.standbys.begin(), plan.standbys.end());
  plan.replicated = {planned_term_,         in_use_.term, self_, newest_attempt(), *planned_, {},
                     log_position_.settled, false};
  for (const Configuration* one : deciders()) {
    if (!one->voters.empty()) {
      plan.replicated.before.push_back(*one);
    }
  }
  if (basis().voters.empty() && !plan.standbys.empty()) {
    told_first_ = *planned_;
    tally_.use(deciders());
  }
  return plan;
}

/// No number up to this one is free. It may be larger than that of any world of this leadership:
/// the numbers that its predecessors may have used count.
AttemptNumber Leadership::newest_attempt() const {
  return AttemptNumber{std::max(number(next_), 1U) - 1};
}

void Leadership::drop_plan() {
  planned_.reset();
  owe_.clear();
  preparing_ = false;
  prepared_.clear();
  ready_ = {};
}

Leadership::Step Leadership::after_standbys() {
  if (!planned_ || preparing_ || !owe_.empty()) {
    return Step::wait;
  }
  preparing_ = true;
  for (const Configuration* configuration : deciders()) {
    Count& count = ready_.deciders.emplace_back();
    for (const VoterId one : dead()) {
      count.free += holds(*configuration, one) ? 1 : 0;
    }
  }
  return Step::prepare;
}

Leadership::Step Leadership::standby_knows(NodeId node, ConfigurationNumber configuration) {
  if (!planned_ || planned_->number != configuration || owe_.erase(node) == 0) {
    return Step::wait;
  }
  return after_standbys();
}

/// Whoever is only believed to be here may be standing for it by now: who has prepared is not.
Leadership::Step Leadership::prepared(NodeId node, ConfigurationNumber configuration) {
  const auto found = here_.find(node);
  if (found == here_.end()) {
    return Step::wait;
  }
  if (!planned_ || planned_->number != configuration || !preparing_) {
    if (begun() && configuration == in_use_.configuration.number) {
      release(found->second);  // it comes late: others were enough
    }
    return Step::wait;
  }
  if (prepared_.insert(found->second.voter).second) {
    count_ready(found->second);
    if (is_of_past(node, found->second.voter)) {
      ++(found->second.standing == VoterState::free ? ready_.past.free : ready_.past.bound);
    }
  }
  bool enough = past_decides(ready_.past) && decides(*planned_, {ready_.planned, 0});
  const auto all = deciders();
  for (std::size_t place = 0; place < all.size(); ++place) {
    enough = enough && decides(*all[place], ready_.deciders[place]);
  }
  return enough ? Step::hand_out : Step::wait;
}

void Leadership::count_ready(const Here& here) {
  ready_.planned += holds(*planned_, here.voter) ? 1 : 0;
  if (here.standing == VoterState::beyond) {
    return;
  }
  const auto all = deciders();
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (holds(*all[place], here.voter)) {
      Count& count = ready_.deciders[place];
      ++(here.standing == VoterState::free ? count.free : count.bound);
    }
  }
}

/// It has prepared in this term: it is bound to nobody else any more.
void Leadership::release(Here& here) {
  here.above = {};
  if (here.standing != VoterState::free) {
    tally_.went(here.voter, here.standing);
    here.standing = VoterState::free;
    tally_.came(here.voter, here.standing);
  }
}

void Leadership::handed_out(AttemptNumber attempt) {
  if (planned_) {
    for (auto& [node, one] : here_) {
      if (prepared_.contains(one.voter)) {
        release(one);
      }
    }
    in_use_.term = in_use_.since = planned_term_;
    replaced_ = std::exchange(in_use_.configuration, std::move(*planned_));
    in_use_.settled = in_use_.configuration.number;
    told_first_ = {};
    has_planned_ = true;
    log_position_ = {in_use_.configuration.number, in_use_.configuration.number, {}};
    beyond_.reset();
    drop_plan();
  }
  in_use_.before.clear();
  in_use_.attempt = attempt;
  next_ = AttemptNumber{number(attempt) + 1};
  forget_past();
  tally_.use(deciders());
  tally_.forget_others();
}

}  // namespace ddprun
