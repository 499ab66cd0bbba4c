// The part of Leadership that deals with a job that others ran before: a coordinator that begins
// without any state goes by what the nodes that come remember.
#include <algorithm>

#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {

void Leadership::heard_of(const Here& here) {
  const bool counts = begins_ || old_job_;
  if (!counts || !here.past || is_own(here.past->configuration)) {
    return;
  }
  const Past& past = *here.past;
  if (!instance_is_settled()) {
    in_use_.instance = past.instance;  // this coordinator goes on with that job
  }
  OldJob& old = old_job_ ? *old_job_ : old_job_.emplace(OldJob{});
  if (past.group_rank && past.attempt > old.attempt) {
    old.here.clear();
    old.dead.clear();
  }
  if (past.group_rank && past.attempt >= old.attempt) {
    old.attempt = past.attempt;
    old.configuration = past.configuration;
    old.others = past.others;
  }
  if (is_of_old_world(here)) {
    ++old.here[here.voter];
    old.dead.erase(here.voter);
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

bool Leadership::is_of_old_world(const Here& here) const {
  return here.past && here.past->group_rank && here.past->attempt == old_job_->attempt &&
         !is_own(here.past->configuration);
}

/// The newest one decides, with what it knows of those before it.
void Leadership::adopt(const StateCopy& copy) {
  const ReplicatedState& state = copy.replicated;
  OldJob& old = old_job_ ? *old_job_ : old_job_.emplace(OldJob{});
  if (state.configuration.number > in_use_.configuration.number) {
    in_use_.configuration = state.configuration;
    in_use_.before = state.before;
    in_use_.settled = state.configuration.number;
    in_use_.term = std::max(in_use_.term, Term{number(state.term) + 1});
    newest_configuration_ = std::max(newest_configuration_, state.configuration.number);
    log_position_ = {state.configuration.number, state.configuration.number, {}};
    const std::uint32_t skipped = 2 * (number(in_use_.term) - number(state.term));
    next_ = std::max(next_, AttemptNumber{number(state.attempt) + skipped});
    remembered_term_ = std::max(remembered_term_, state.term);
    old.leader = state.coordinator;
    old.leader_is_gone = old.leader_died = false;
    for (auto& [node, one] : here_) {
      one.beyond = is_beyond(one);
    }
  }
  if (state.configuration.number == in_use_.configuration.number) {
    old.leader_is_gone = old.leader_is_gone || copy.at_endpoint || copy.saw_close;
    old.leader_died = old.leader_died || copy.saw_close;
  }
}

/// A newer configuration may have been handed out to nodes that are not here. The coordinator
/// before may have gone on with other nodes, as long as the voters that are not here were enough
/// for that: its own and those that it knew to be dead, or that were with it. Else one that is here
/// would have had to acknowledge that.
bool Leadership::past_is_here() const {
  if (!old_job_) {
    return true;
  }
  const std::vector<VoterId>& voters = in_use_.configuration.voters;
  const auto here =
      static_cast<std::size_t>(std::count_if(voters.begin(), voters.end(), [this](VoterId voter) {
        return connections_.contains(voter);
      }));
  const bool went_on =
      !old_job_->leader_died && keeps_quorum(voters.size() - here, voters.size(), true);
  const std::size_t known = old_job_->here.size() + old_job_->dead.size();
  return old_job_->leader_is_gone && old_job_->configuration == in_use_.configuration.number &&
         known >= static_cast<std::size_t>(old_job_->others) && !went_on;
}

/// What the coordinator before did last is known here.
bool Leadership::knows_newest() const {
  return !begins_ || !old_job_ || old_job_->leader_died || past_is_here();
}

AttemptNumber Leadership::next_attempt() const {
  return knows_newest() ? next_ : AttemptNumber{number(next_) + kUnknownMax};
}

}  // namespace ddprun
