// The part of Leadership that proposes: which voters, in which term, who is to acknowledge it, and
// what is so once the world was handed out.
#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {
namespace {

/// Adds up to `count` of `nodes`, as far from each other as they can be.
void spread(const std::vector<NodeId>& nodes, std::size_t count, std::vector<NodeId>& chosen) {
  count = std::min(count, nodes.size());
  for (std::size_t i = 1; i <= count; ++i) {
    chosen.push_back(nodes[i * nodes.size() / (count + 1)]);
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

/// Witnesses are there for this. The members are spread over the order of ranks: neighbours in it
/// may share a rack with each other and with the coordinator. They stand first, for a witness need
/// not be a machine that can serve the store of the job.
std::vector<NodeId> Leadership::choose_voters(const std::vector<NodeId>& members,
                                              const std::vector<NodeId>& witnesses) const {
  std::vector<NodeId> own;
  std::vector<NodeId> working;
  std::vector<NodeId> beyond;
  std::vector<NodeId> watching;
  for (const NodeId node : members) {
    const Here& here = here_.at(node);
    (here.voter == self_ ? own : here.beyond ? beyond : working).push_back(node);
  }
  for (const NodeId node : witnesses) {
    const Here& here = here_.at(node);
    (here.voter == self_ ? own : here.beyond ? beyond : watching).push_back(node);
  }
  const std::size_t others = voters_max_ - std::min<std::size_t>(voters_max_, own.size());
  watching.resize(std::min(watching.size(), others));
  std::vector<NodeId> chosen;
  spread(working, others - watching.size(), chosen);
  // Those that are beyond acknowledge nothing before the plan is in use, and with too many of them
  // it never would be. So they only fill places that are left, up to half of all.
  const std::size_t able = chosen.size() + watching.size() + own.size();
  spread(beyond, std::min(others - watching.size() - chosen.size(), able), chosen);
  chosen.insert(chosen.end(), watching.begin(), watching.end());
  chosen.insert(chosen.end(), own.begin(), own.end());
  return chosen;
}

Configuration Leadership::configuration_of(const std::vector<NodeId>& voters) const {
  Configuration configuration;
  for (const NodeId node : voters) {
    configuration.voters.push_back(here_.at(node).voter);
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
  const std::vector<NodeId> voters = choose_voters(members, witnesses);
  planned_term_ = next_term();
  // What was told of a plan that came to nothing stays told: then even the configuration in use has
  // to be announced anew.
  if (has_planned_ && planned_term_ == in_use_.term && !beyond_ && members == members_ &&
      configuration_of(voters).voters == in_use_.configuration.voters &&
      newest_configuration_ == in_use_.configuration.number) {
    return std::nullopt;
  }
  return announce(voters, members);
}

std::optional<Leadership::Plan> Leadership::plan_end(const std::vector<NodeId>& members,
                                                     const std::vector<NodeId>& witnesses) {
  drop_plan();
  if (!enabled() || deciders().empty()) {
    return std::nullopt;
  }
  planned_term_ = next_term();
  Plan plan = announce(choose_voters(members, witnesses), members);
  plan.replicated.ends = true;
  return plan;
}

/// By its newest connection, unless it is told as one of the planned voters, or was named before.
void Leadership::tell(Plan& plan, VoterId voter) const {
  const std::set<NodeId>& nodes = connections_of(voter);
  if (!holds(*planned_, voter) && !nodes.empty() &&
      std::find(plan.voters.begin(), plan.voters.end(), *nodes.rbegin()) == plan.voters.end()) {
    plan.voters.push_back(*nodes.rbegin());
  }
}

/// In planned_term_.
Leadership::Plan Leadership::announce(const std::vector<NodeId>& voters,
                                      const std::vector<NodeId>& members) {
  newest_configuration_ = next_configuration(newest_configuration_, planned_term_, self_);
  own_terms_.insert(planned_term_);
  planned_ = configuration_of(voters);
  planned_->number = newest_configuration_;
  planned_members_ = members;
  Plan plan{voters,
            {planned_term_,
             in_use_.term,
             self_,
             AttemptNumber{std::max(number(next_attempt()), 1U) - 1},
             *planned_,
             {},
             log_position_.settled,
             false,
             in_use_.instance}};
  for (const Configuration* one : deciders()) {
    plan.replicated.before.push_back(*one);
    for (const VoterId voter : one->voters) {
      tell(plan, voter);
      // A vote for another binds its voter until that candidate has acknowledged, too.
      for (const NodeId node : connections_of(voter)) {
        for (const VoterId granted : here_.at(node).promise.granted) {
          tell(plan, granted);
        }
      }
    }
  }
  told_ = plan.voters;
  if (plan.replicated.before.empty()) {
    told_first_ = *planned_;
  }
  return plan;
}

void Leadership::drop_plan() {
  planned_.reset();
  acknowledged_.clear();
}

/// Whoever is only believed to be here may be standing for it by now: who has acknowledged is not.
bool Leadership::committed() const {
  if (!planned_ || !quorum_of(&acknowledged_)) {
    return false;
  }
  const auto& voters = planned_->voters;
  const auto ready =
      static_cast<std::size_t>(std::count_if(voters.begin(), voters.end(), [this](VoterId voter) {
        return acknowledged_.contains(voter);
      }));
  const bool own = holds(*planned_, self_) && acknowledged_.contains(self_);
  return voters.empty() || keeps_quorum(ready, voters.size(), own);
}

bool Leadership::acknowledged(NodeId node, ConfigurationNumber configuration) {
  const auto found = here_.find(node);
  if (found == here_.end()) {
    return false;
  }
  if (!planned_ || planned_->number != configuration) {
    if (begun() && configuration == in_use_.configuration.number) {
      release(found->second);  // it comes late: others were enough
    }
    return false;
  }
  return acknowledged_.insert(found->second.voter).second && committed();
}

/// It has acknowledged in this term: it is bound to nobody else any more.
void Leadership::release(Here& here) {
  here.promise = {};
  here.above = {};
  here.beyond = false;
}

bool Leadership::handed_out(AttemptNumber attempt) {
  begins_ = false;
  old_job_.reset();
  if (planned_) {
    for (auto& [node, one] : here_) {
      if (acknowledged_.contains(one.voter)) {
        release(one);
      }
    }
    in_use_.term = in_use_.since = planned_term_;
    replaced_ = std::exchange(in_use_.configuration, std::move(*planned_));
    in_use_.settled = in_use_.configuration.number;
    members_ = std::move(planned_members_);
    told_first_ = {};
    has_planned_ = true;
    log_position_ = {in_use_.configuration.number, in_use_.configuration.number, {}};
    beyond_.reset();
    drop_plan();
    for (auto& [node, one] : here_) {
      // A voter of this configuration does not count before it has acknowledged it.
      one.beyond = one.beyond && (holds(in_use_.configuration, one.voter) || is_beyond(one));
    }
  }
  in_use_.before.clear();
  in_use_.attempt = attempt;
  next_ = AttemptNumber{number(attempt) + 1};
  std::erase_if(dead_, [this](VoterId one) { return !holds(in_use_.configuration, one); });
  return std::any_of(told_.begin(), told_.end(),
                     [this](NodeId node) { return votes(node) && here_.at(node).beyond; });
}

}  // namespace ddprun
