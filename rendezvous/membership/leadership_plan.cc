// The part of Leadership that proposes: which voters, in which term, who is to acknowledge it, and
// what is so once the world was handed out.
#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/quorum.h"
#include "rendezvous/membership/voter_choice.h"

namespace ddprun {
namespace {

/// By its newest connection, unless it is one of the planned voters, or was named before.
void tell(Leadership::Plan& plan, const Configuration& planned, const VotersHere& here,
          VoterId voter) {
  const std::vector<NodeId> nodes = here.connections_of(voter);
  if (!holds(planned, voter) && !nodes.empty() &&
      std::find(plan.voters.begin(), plan.voters.end(), nodes.back()) == plan.voters.end()) {
    plan.voters.push_back(nodes.back());
  }
}

}  // namespace

/// One that everybody who is here may prepare for, and who has prepared for a plan that was
/// dropped.
Term Leadership::next_term() const {
  const std::uint32_t unknown = knows_newest() ? 0 : kUnknownMax;
  Term term = std::max(Term{number(in_use_.term) + unknown}, planned_term_);
  for (const auto& [node, one] : here_) {
    if (one.above >= term) {
      term = Term{number(one.above) + 1};
    }
  }
  return term;
}

/// A restart of the same nodes needs no round: attempts of an unchanged world share a
/// configuration, and the voters have stored it.
std::optional<Leadership::Plan> Leadership::plan(const std::vector<NodeId>& members,
                                                 const std::vector<NodeId>& witnesses) {
  drop_plan();
  if (!enabled()) {
    return std::nullopt;
  }
  const std::vector<NodeId> voters = choose_voters(here_, self_, voters_max_, members, witnesses);
  planned_term_ = next_term();
  // What was told of a plan that came to nothing stays told: then even the configuration in use has
  // to be announced anew.
  if (has_planned_ && planned_term_ == in_use_.term && !beyond_ && members == members_ &&
      here_.configuration_of(voters).voters == in_use_.configuration.voters &&
      log_.newest() == in_use_.configuration.number) {
    return std::nullopt;
  }
  return announce(voters, members);
}

/// The end always takes a round, even for an unchanged world: it is a new configuration that hands
/// out nothing. A job that never had a world has nobody who could go on.
std::optional<Leadership::Plan> Leadership::plan_end(const std::vector<NodeId>& members,
                                                     const std::vector<NodeId>& witnesses) {
  drop_plan();
  if (!enabled() || deciders().empty()) {
    return std::nullopt;
  }
  planned_term_ = next_term();
  Plan plan = announce(choose_voters(here_, self_, voters_max_, members, witnesses), members);
  plan.replicated.ends = true;
  return plan;
}

/// In planned_term_.
Leadership::Plan Leadership::announce(const std::vector<NodeId>& voters,
                                      const std::vector<NodeId>& members) {
  DDP_CHECK(enabled(), "a job without failover plans nothing");
  DDP_CHECK(!planning(), "the plan before was dropped");
  proposal_ = Proposal{here_.configuration_of(voters), members, {}};
  Configuration& planned = proposal_->configuration;
  planned.number = log_.propose(planned_term_);
  DDP_CHECK(log_.is_own(planned.number), "a plan of this coordinator is its own");
  Plan plan{voters,
            {planned_term_,
             in_use_.term,
             self_,
             AttemptNumber{std::max(number(next_attempt()), 1U) - 1},
             planned,
             {},
             log_.settled(),
             false,
             in_use_.instance}};
  for (const Configuration* one : deciders()) {
    plan.replicated.before.push_back(*one);
    for (const VoterId voter : one->voters) {
      tell(plan, proposal_->configuration, here_, voter);
      // A vote for another binds its voter until that candidate has acknowledged, too.
      for (const NodeId node : here_.connections_of(voter)) {
        for (const VoterId granted : here_.at(node).promise().granted) {
          tell(plan, proposal_->configuration, here_, granted);
        }
      }
    }
  }
  told_ = plan.voters;
  if (plan.replicated.before.empty()) {
    told_first_ = planned;
  }
  return plan;
}

void Leadership::drop_plan() {
  proposal_.reset();
}

/// Whoever is only believed to be here may be standing for it by now: who has acknowledged is not.
bool Leadership::committed() const {
  if (!proposal_ || !quorum_of(&proposal_->acknowledged)) {
    return false;
  }
  const std::set<VoterId>& acknowledged = proposal_->acknowledged;
  const std::vector<VoterId>& voters = proposal_->configuration.voters;
  const auto ready = static_cast<std::size_t>(std::count_if(
      voters.begin(), voters.end(), [&](VoterId voter) { return acknowledged.contains(voter); }));
  const bool own = holds(proposal_->configuration, self_) && acknowledged.contains(self_);
  return voters.empty() || keeps_quorum(ready, voters.size(), own);
}

/// An acknowledgement names the configuration, for it may be of a plan that was dropped since.
bool Leadership::acknowledged(NodeId node, ConfigurationNumber configuration) {
  VoterHere* const here = here_.find(node);
  if (here == nullptr) {
    return false;
  }
  if (!proposal_ || proposal_->configuration.number != configuration) {
    if (begun() && configuration == in_use_.configuration.number) {
      here->release();  // it comes late: others were enough
    }
    return false;
  }
  return proposal_->acknowledged.insert(here->voter()).second && committed();
}

/// From here on the planned configuration alone decides. Votes of those that acknowledged it are
/// void, and what is beyond is judged again by what is known now.
bool Leadership::handed_out(AttemptNumber attempt) {
  begins_ = false;
  old_job_.reset();
  if (proposal_) {
    for (auto& [node, one] : here_) {
      if (proposal_->acknowledged.contains(one.voter())) {
        one.release();
      }
    }
    in_use_.term = in_use_.since = planned_term_;
    replaced_ = std::exchange(in_use_.configuration, std::move(proposal_->configuration));
    in_use_.settled = in_use_.configuration.number;
    members_ = std::move(proposal_->members);
    told_first_ = {};
    has_planned_ = true;
    log_.settle(in_use_.configuration.number);
    beyond_.reset();
    drop_plan();
    for (auto& [node, one] : here_) {
      // A voter of this configuration does not count before it has acknowledged it.
      one.beyond = one.beyond && (holds(in_use_.configuration, one.voter()) || is_beyond(one));
    }
  }
  DDP_CHECK(!planning() && !old_job_, "what is handed out decides from here on");
  in_use_.before.clear();
  in_use_.attempt = attempt;
  next_ = AttemptNumber{number(attempt) + 1};
  here_.forget_dead_but_of(in_use_.configuration);
  return std::any_of(told_.begin(), told_.end(),
                     [this](NodeId node) { return votes(node) && here_.at(node).beyond; });
}

}  // namespace ddprun
