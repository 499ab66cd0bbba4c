// The part of Leadership that deals with a job that others ran before: a coordinator that begins
// without any state goes by what the nodes that come remember.
#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {

/// A node with a past may have run workers under a coordinator that this one knows nothing of. Its
/// attempt, its term and its world bound what this coordinator may use.
void Leadership::heard_of(const VoterHere& here) {
  DDP_CHECK(enabled(), "a job without failover has no past");
  const bool counts = begins_ || old_job_;
  if (!counts || here.past() == nullptr || log_.is_own(here.past()->configuration)) {
    return;
  }
  const Past& past = *here.past();
  if (!instance_is_settled()) {
    in_use_.instance = past.instance;  // this coordinator goes on with that job
  }
  OldJob& old = old_job_ ? *old_job_ : old_job_.emplace();
  old.remembers(past);
  if (is_of_old_world(here)) {
    old.came(here.voter());
  }
  if (!begins_) {
    return;
  }
  remembered_term_ = std::max(remembered_term_, past.term);
  // As a candidate does: a later term, and for every term in between two numbers are left out.
  in_use_.term = std::max(in_use_.term, Term{number(past.term) + 1});
  const std::uint32_t skipped = 2 * (number(in_use_.term) - number(past.term));
  next_ = std::max(next_, AttemptNumber{number(past.attempt) + skipped});
}

bool Leadership::is_of_old_world(const VoterHere& here) const {
  DDP_CHECK(old_job_.has_value(), "there was a job before");
  return here.past() != nullptr && old_job_->is_of_world(*here.past()) &&
         !log_.is_own(here.past()->configuration);
}

/// The newest one decides, with what it knows of those before it.
void Leadership::adopt(const StateCopy& copy) {
  DDP_CHECK(begins_, "only a coordinator that began without any state adopts one");
  const ReplicatedState& state = copy.replicated;
  OldJob& old = old_job_ ? *old_job_ : old_job_.emplace();
  if (state.configuration.number > in_use_.configuration.number) {
    in_use_.configuration = state.configuration;
    in_use_.before = state.before;
    in_use_.settled = state.configuration.number;
    in_use_.term = std::max(in_use_.term, Term{number(state.term) + 1});
    log_.adopt(state.configuration.number);
    const std::uint32_t skipped = 2 * (number(in_use_.term) - number(state.term));
    next_ = std::max(next_, AttemptNumber{number(state.attempt) + skipped});
    remembered_term_ = std::max(remembered_term_, state.term);
    old.was_led_by(state.coordinator);
    // Nodes that came earlier were judged by an older state.
    for (auto& [node, one] : here_) {
      one.beyond = is_beyond(one);
    }
  }
  if (state.configuration.number == in_use_.configuration.number &&
      (copy.at_endpoint || copy.saw_close)) {
    old.leader_is_gone(copy.saw_close);
  }
}

std::vector<NodeId> Leadership::old_voters() const {
  std::vector<NodeId> nodes;
  if (!begins_ || !told_.empty()) {
    return nodes;
  }
  for (const VoterId voter : in_use_.configuration.voters) {
    if (const auto connections = here_.connections_of(voter);
        voter != self_ && !connections.empty()) {
      nodes.push_back(connections.back());
    }
  }
  DDP_CHECK(nodes.size() <= in_use_.configuration.voters.size(), "each voter is named once");
  return nodes;
}

bool Leadership::past_is_here() const {
  const std::vector<VoterId>& voters = in_use_.configuration.voters;
  const auto here = std::count_if(voters.begin(), voters.end(),
                                  [this](VoterId voter) { return here_.is_here(voter); });
  return !old_job_ || old_job_->is_here(in_use_.configuration, static_cast<std::size_t>(here));
}

/// A candidate may win by votes that were given before their voters stored a plan of this
/// coordinator. They do not count for that leader, as it does not know the plan, and it would wait
/// for a majority in vain. So here the term of the plan, which they have promised, is one of votes.
Term Leadership::stands_for() const {
  if (!begins_) {
    return in_use_.term;
  }
  const std::vector<VoterId>& voters = in_use_.configuration.voters;
  const auto was_told = [this](VoterId voter) {
    return std::any_of(told_.begin(), told_.end(), [&](NodeId node) {
      return here_.at(node).voter() == voter && !here_.at(node).beyond;
    });
  };
  const auto out = std::count_if(voters.begin(), voters.end(), [&](VoterId voter) {
    return was_told(voter) || (old_job_ && old_job_->leader_died() && voter == old_job_->leader());
  });
  const std::size_t rest = voters.size() - static_cast<std::size_t>(out);
  const bool keeps_them = begun() && old_job_ && !keeps_quorum(rest, voters.size(), true);
  return keeps_them ? std::max(planned_term_, remembered_term_) : remembered_term_;
}

/// What the coordinator before did last is known here.
bool Leadership::knows_newest() const {
  return !begins_ || !old_job_ || old_job_->leader_died() || past_is_here();
}

/// Where newer numbers may have been used elsewhere, a gap is left (kUnknownMax).
AttemptNumber Leadership::next_attempt() const {
  return knows_newest() ? next_ : AttemptNumber{number(next_) + kUnknownMax};
}

}  // namespace ddprun
