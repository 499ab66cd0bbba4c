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

/// Adds up to `count` of `nodes`, as far from each other as they can be.
void spread(const std::vector<NodeId>& nodes, std::size_t count, std::vector<NodeId>& chosen) {
  count = std::min(count, nodes.size());
  for (std::size_t i = 1; i <= count; ++i) {
    chosen.push_back(nodes[i * nodes.size() / (count + 1)]);
  }
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

// --- Plans ----------------------------------------------------------------------------------

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
