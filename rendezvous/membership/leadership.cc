#include "rendezvous/membership/leadership.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {

/// A successor's own term counts from its election. The state that it inherits keeps its number,
/// its voters and what may be in use before it.
Leadership::Leadership(Term term, VoterId self, ReplicatedState known, AttemptNumber first,
                       std::size_t voters_max)
    : self_(self),
      voters_max_(voters_max),
      in_use_(std::move(known)),
      log_(self, in_use_),
      next_(first),
      begins_(!begun()) {
  DDP_CHECK(voters_max_ >= 1, "somebody decides");
  in_use_.term = in_use_.since = term;
  if (begun()) {
    old_job_.emplace().was_led_by(in_use_.coordinator);
    old_job_->leader_is_gone(true);  // else its lease is over by now
  }
  in_use_.coordinator = self;
}

// --- Who is here ----------------------------------------------------------------------------

/// The order matters: what the node remembers may move this coordinator's term and state (heard_of,
/// adopt), and only then it is clear whether the node is beyond it.
void Leadership::joined(NodeId node, VoterId voter, const Promise& promise,
                        const std::optional<Past>& past, const std::optional<StateCopy>& copy) {
  drop_plan();
  VoterHere& here = here_.add(node, {voter, promise, past});
  if (enabled()) {
    heard_of(here);
  }
  if (begins_ && enabled() && copy && !log_.is_own(copy->replicated.configuration.number)) {
    adopt(*copy);
  }
  if (begins_ && begun() && old_job_ && old_job_->saw_death_in(in_use_.configuration.number)) {
    old_job_->leader_is_gone(true);
  }
  if (past && enabled()) {
    // Also of a job that this coordinator knows nothing of: an agent's attempt numbers only rise.
    next_ = std::max(next_, AttemptNumber{number(past->attempt) + 1});
  }
  if (!log_.knows(promise.configuration)) {
    beyond_ = std::max(beyond_.value_or(ConfigurationNumber{}), promise.configuration);
  }
  here.beyond = is_beyond(here);
  // A promise for a later term counts as foreign even if it names this node: it may have
  // overwritten one for a term in between.
  const bool is_ours = !enabled() || promise.term < in_use_.term ||
                       (promise.term == in_use_.term && promise.to == self_);
  here.above = is_ours ? Term{} : promise.term;
  if (votes(node)) {
    // Its newest connection takes the place of an old one that is not known to be gone yet.
    std::erase_if(told_, [&](NodeId told) { return here_.at(told).voter() == voter; });
    told_.push_back(node);
  }
}

bool Leadership::votes(NodeId node) const {
  const VoterHere* const here = here_.find(node);
  return enabled() && !begins_ && here != nullptr && holds(in_use_.configuration, here->voter());
}

bool Leadership::is_beyond(const VoterHere& here) const {
  return begun() && !log_.knows(here.promise().configuration);
}

void Leadership::left(NodeId node, bool died) {
  drop_plan();
  std::erase(told_, node);
  if (here_.find(node) == nullptr) {
    return;
  }
  const VoterHere here = here_.remove(node);
  const bool is_away = !here_.is_here(here.voter());
  DDP_CHECK(here_.find(node) == nullptr, "a node that left is not here");
  // What it stored of a leader before this one's configuration came into use is void.
  const bool dead = died && is_away && !is_beyond(here) && !here.voted_for_another(self_);
  if (dead && enabled()) {
    here_.died(here.voter());
  }
  if (old_job_ && is_of_old_world(here)) {
    old_job_->went(here.voter());
    if (dead) {
      old_job_->died(here.voter());
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

/// The coordinator that leads goes on with half, counting only those that are bound to nobody. With
/// more than half no other candidate can have a quorum, whatever those voters are bound to.
bool Leadership::decides(const Configuration& configuration, const std::set<VoterId>* among) const {
  const VotersHere::Count count = here_.count(configuration, self_, among);
  const std::size_t all = configuration.voters.size();
  const std::size_t free = count.free + count.dead;
  if (begins_ && old_job_ && !log_.is_own(configuration.number)) {
    // One of them has to be here: else nobody would remember what this coordinator does.
    return count.free + count.bound > 0 &&
           (gains_quorum(free + count.bound, all) ||
            old_job_->rest_is_no_quorum(configuration, count,
                                        here_.is_free(old_job_->leader(), among)));
  }
  return keeps_quorum(free, all, count.own) || gains_quorum(free + count.bound, all);
}

/// Of all that decide; of those who have acknowledged the plan, where `among` says who has.
bool Leadership::quorum_of(const std::set<VoterId>* among) const {
  const auto all = deciders();
  if (begins_ && old_job_ && !begun() && !here_.is_here(kServiceVoter)) {
    return false;  // nobody here knows who decides
  }
  return all.size() <= kBeforeMax &&
         std::all_of(all.begin(), all.end(), [&](const auto* one) { return decides(*one, among); });
}

bool Leadership::quorum_follows() const {
  return !enabled() || quorum_of(nullptr);
}

bool Leadership::is_free(NodeId node) const {
  const VoterHere* const here = here_.find(node);
  return here != nullptr && !here->beyond && !here->voted_for_another(self_);
}

/// A coordinator without a quorum that missed a newer configuration would wait for voters that
/// never come back to it.
bool Leadership::outdated() const {
  return enabled() && !begins_ && beyond_ && !log_.knows(*beyond_) && !quorum_follows();
}

/// Voters that died count, because they follow nobody else.
bool Leadership::needs_nobody() const {
  const Configuration& decides = in_use_.configuration;
  if (!enabled() || decides.voters.empty()) {
    return true;
  }
  // By those that decide, who are few: thousands of nodes may have died.
  const auto dead = std::count_if(
      decides.voters.begin(), decides.voters.end(),
      [this](VoterId voter) { return here_.dead().contains(voter) && !here_.is_here(voter); });
  return holds(decides, self_) &&
         keeps_quorum(1 + static_cast<std::size_t>(dead), decides.voters.size(), true);
}

/// Of the first configuration that lacks voters: people need one number to act on.
std::string Leadership::quorum_text() const {
  const auto all = deciders();
  const auto missing = std::find_if(
      all.begin(), all.end(), [this](const Configuration* one) { return !decides(*one, nullptr); });
  if (missing == all.end()) {
    return "none of the nodes that decide for the job is here";
  }
  const Configuration& configuration = **missing;
  const VotersHere::Count here = here_.count(configuration, self_, nullptr);
  const std::size_t voters = configuration.voters.size();
  const bool half = here.bound == 0 &&
                    (holds(configuration, self_) ||
                     (begins_ && old_job_ &&
                      (old_job_->leader_is_gone() || here_.is_free(old_job_->leader(), nullptr))));
  const std::size_t needed = half ? (voters + 1) / 2 : voters / 2 + 1;
  return fmt::format("{} of the {} nodes that decide for the job are here, {} are needed",
                     here.free + here.bound + here.dead, voters, needed);
}

}  // namespace ddprun
