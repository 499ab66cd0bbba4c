#include "rendezvous/membership/leadership.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {
namespace {

/// A vote for this coordinator binds the voter to nobody else. Nor does one for itself: it follows.
bool voted_for_another(const Promise& promise, VoterId voter, VoterId self) {
  return std::any_of(promise.granted.begin(), promise.granted.end(),
                     [&](VoterId candidate) { return candidate != self && candidate != voter; });
}

}  // namespace

Leadership::Leadership(Term term, VoterId self, ReplicatedState known, AttemptNumber first,
                       std::size_t voters_max)
    : self_(self),
      voters_max_(voters_max),
      in_use_(std::move(known)),
      newest_configuration_(in_use_.configuration.number),
      log_position_(in_use_.log_position()),
      next_(first),
      begins_(!begun()) {
  DDP_CHECK(voters_max_ >= 1, "somebody decides");
  in_use_.term = in_use_.since = term;
  if (begun()) {
    old_job_.emplace(OldJob{});
    old_job_->leader = in_use_.coordinator;
    old_job_->leader_is_gone = old_job_->leader_died = true;  // else its lease is over by now
  }
  in_use_.coordinator = self;
}

// --- Who is here ----------------------------------------------------------------------------

void Leadership::joined(NodeId node, VoterId voter, const Promise& promise,
                        const std::optional<Past>& past, const std::optional<StateCopy>& copy) {
  DDP_CHECK(!here_.contains(node), "a node joins once");
  drop_plan();
  Here& here = here_[node];
  here = {voter, promise, past};
  connections_[voter].insert(node);
  if (enabled()) {
    heard_of(here);
  }
  if (begins_ && enabled() && copy && !is_own(copy->replicated.configuration.number)) {
    adopt(*copy);
  }
  if (past && enabled()) {
    // Also of a job that this coordinator knows nothing of: an agent's attempt numbers only rise.
    next_ = std::max(next_, AttemptNumber{number(past->attempt) + 1});
  }
  if (!knows(promise.configuration)) {
    beyond_ = std::max(beyond_.value_or(ConfigurationNumber{}), promise.configuration);
  }
  here.beyond = is_beyond(here);
  here.above = is_ours(promise) ? Term{} : promise.term;
  if (votes(node)) {
    std::erase_if(told_, [&](NodeId told) { return here_.at(told).voter == voter; });
    told_.push_back(node);
  }
}

const std::set<NodeId>& Leadership::connections_of(VoterId agent) const {
  static const std::set<NodeId> none;
  const auto found = connections_.find(agent);
  return number(agent) != 0 && found != connections_.end() ? found->second : none;
}

bool Leadership::votes(NodeId node) const {
  const auto found = here_.find(node);
  return enabled() && !begins_ && found != here_.end() &&
         holds(in_use_.configuration, found->second.voter);
}

bool Leadership::knows(ConfigurationNumber configuration) const {
  return log_position_.covers(configuration) || is_own(configuration);
}

bool Leadership::is_own(ConfigurationNumber configuration) const {
  const ConfigurationNumber own =
      make_configuration(term_of(configuration), self_, count_of(configuration));
  return configuration == own && own_terms_.contains(term_of(configuration));
}

/// A promise for a later term counts as foreign even if it names this node: it may have overwritten
/// one for a term in between.
bool Leadership::is_ours(const Promise& promise) const {
  return !enabled() || promise.term < in_use_.term ||
         (promise.term == in_use_.term && promise.to == self_);
}

bool Leadership::is_beyond(const Here& here) const {
  return begun() && !knows(here.promise.configuration);
}

void Leadership::left(NodeId node, bool died) {
  drop_plan();
  std::erase(told_, node);
  const auto found = here_.find(node);
  if (found == here_.end()) {
    return;
  }
  const Here here = std::move(found->second);
  here_.erase(found);
  const auto connections = connections_.find(here.voter);
  connections->second.erase(node);
  const bool is_away = connections->second.empty();
  if (is_away) {
    connections_.erase(connections);
  }
  // What it stored of a leader before this one's configuration came into use is void.
  const bool dead = died && !is_beyond(here) && !voted_for_another(here.promise, here.voter, self_);
  if (dead && is_away && enabled()) {
    dead_.insert(here.voter);
  }
  if (old_job_ && is_of_old_world(here)) {
    if (const auto of_world = old_job_->here.find(here.voter); --of_world->second == 0) {
      old_job_->here.erase(of_world);
    }
    if (dead && is_away) {
      old_job_->dead.insert(here.voter);
    }
  }
}

// --- Who decides ----------------------------------------------------------------------------

/// Who decides about the next world: the configurations that may be in use, and who was told to be
/// in the first one.
std::vector<const Configuration*> Leadership::deciders() const {
  std::vector<const Configuration*> all;
  if (begun()) {
    all = in_use_.configurations();
  }
  if (!told_first_.voters.empty()) {
    all.push_back(&told_first_);
  }
  return all;
}

std::vector<const Configuration*> Leadership::acquainted() const {
  std::vector<const Configuration*> all = deciders();
  all.push_back(&replaced_);
  return all;
}

Leadership::Count Leadership::count(const Configuration& configuration,
                                    const std::set<VoterId>* among) const {
  Count count;
  for (const VoterId voter : configuration.voters) {
    const auto found = connections_.find(voter);
    if (found == connections_.end()) {
      count.dead += dead_.contains(voter) ? 1 : 0;
      continue;
    }
    const Standing standing = standing_of(voter, among);
    if (standing != Standing::beyond && (among == nullptr || among->contains(voter))) {
      ++(standing == Standing::free ? count.free : count.bound);
      count.own = count.own || (standing == Standing::free && voter == self_);
    }
  }
  return count;
}

/// A candidate that follows this coordinator leads nobody, nor does one that died while it
/// followed. But one that is beyond acknowledges nothing, so a vote for it stays a vote for it.
Leadership::Standing Leadership::standing_of(VoterId voter, const std::set<VoterId>* among) const {
  const auto leads_nobody = [&](VoterId candidate) {
    if (dead_.contains(candidate)) {
      return true;
    }
    if (among != nullptr) {
      return among->contains(candidate);
    }
    const auto found = connections_.find(candidate);
    return found != connections_.end() &&
           std::none_of(found->second.begin(), found->second.end(),
                        [this](NodeId node) { return here_.at(node).beyond; });
  };
  bool free = true;
  for (const NodeId node : connections_.at(voter)) {
    const Here& here = here_.at(node);
    if (here.beyond) {
      return Standing::beyond;
    }
    for (const VoterId granted : here.promise.granted) {
      free = free && leads_nobody(granted);
    }
  }
  return free ? Standing::free : Standing::bound;
}

bool Leadership::decides(const Configuration& configuration, const Count& count) const {
  const std::size_t all = configuration.voters.size();
  const std::size_t free = count.free + count.dead;
  if (begins_ && old_job_ && !is_own(configuration.number)) {
    // One of them has to be here: else nobody would remember what this coordinator does.
    return count.free + count.bound > 0 &&
           (gains_quorum(free + count.bound, all) || rest_is_no_quorum(configuration, count));
  }
  return keeps_quorum(free, all, count.own) || gains_quorum(free + count.bound, all);
}

/// The coordinator before is no more, but it may have voted for a successor. Where half of the
/// voters are here without it the rest is no majority, and where all are, none of them leads.
bool Leadership::rest_is_no_quorum(const Configuration& configuration, const Count& count) const {
  const std::size_t all = configuration.voters.size();
  return old_job_->leader_is_gone && holds(configuration, old_job_->leader) &&
         (2 * (count.free + count.dead) >= all || count.free + count.bound + count.dead + 1 >= all);
}

/// Of all that decide; of those who have acknowledged the plan, where `among` says who has.
bool Leadership::quorum_of(const std::set<VoterId>* among) const {
  const auto all = deciders();
  if (begins_ && old_job_ && !begun()) {
    return false;  // nobody here knows who decides
  }
  return all.size() <= kBeforeMax && std::all_of(all.begin(), all.end(), [&](const auto* one) {
           return decides(*one, count(*one, among));
         });
}

bool Leadership::quorum_follows() const {
  return !enabled() || quorum_of(nullptr);
}

bool Leadership::is_free(NodeId node) const {
  const auto found = here_.find(node);
  return found != here_.end() && !found->second.beyond &&
         !voted_for_another(found->second.promise, found->second.voter, self_);
}

bool Leadership::outdated() const {
  return enabled() && !begins_ && beyond_ && !knows(*beyond_) && !quorum_follows();
}

bool Leadership::needs_nobody() const {
  const Configuration& decides = in_use_.configuration;
  if (!enabled() || decides.voters.empty()) {
    return true;
  }
  const auto dead = std::count_if(dead_.begin(), dead_.end(), [&](VoterId voter) {
    return holds(decides, voter) && !connections_.contains(voter);
  });
  return holds(decides, self_) &&
         keeps_quorum(1 + static_cast<std::size_t>(dead), decides.voters.size(), true);
}

std::string Leadership::quorum_text() const {
  const auto all = deciders();
  const auto missing = std::find_if(all.begin(), all.end(), [this](const Configuration* one) {
    return !decides(*one, count(*one));
  });
  if (missing == all.end()) {
    return "none of the nodes that decide for the job is here";
  }
  const Configuration& configuration = **missing;
  const Count here = count(configuration);
  const std::size_t voters = configuration.voters.size();
  const bool half = here.bound == 0 && (holds(configuration, self_) ||
                                        (begins_ && old_job_ && old_job_->leader_is_gone));
  const std::size_t needed = half ? (voters + 1) / 2 : voters / 2 + 1;
  return std::to_string(here.free + here.bound + here.dead) + " of the " + std::to_string(voters) +
         " nodes that decide for the job are here, " + std::to_string(needed) + " are needed";
}

}  // namespace ddprun
