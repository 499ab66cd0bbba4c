#include "rendezvous/membership/voter.h"

#include <algorithm>

namespace ddprun {

void Voter::follow(Term term, VoterId coordinator) {
  follows_ = coordinator;
  if (term > promise_.term) {
    promise_.term = term;
    promise_.to = coordinator;
  }
}

bool Voter::keeps(const ReplicatedState& state) {
  const ConfigurationNumber kept = promise_.configuration;
  const bool is_own = maker_of(kept) == maker_of(state.configuration.number);
  if ((!is_own && !state.log_position().covers(kept)) ||
      !prepared(state.configuration.number, state.term)) {
    return false;
  }
  if (state.settled == state.configuration.number) {
    in_use();
  }
  return true;
}

bool Voter::prepared(ConfigurationNumber configuration, Term term) {
  if (!follows_ || term < promise_.term || (term == promise_.term && promise_.to != *follows_)) {
    return false;
  }
  promise_.term = term;
  promise_.to = *follows_;
  promise_.configuration = std::max(promise_.configuration, configuration);
  return true;
}

void Voter::in_use() {
  promise_.granted.clear();
}

void Voter::assigned(ConfigurationNumber configuration, AttemptNumber attempt, Term term) {
  if (prepared(configuration, term)) {  // it may have been away when it was to
    in_use();
  }
  assigned_configuration_ = std::max(assigned_configuration_, configuration);
  if (!attempt_ || attempt > *attempt_) {
    attempt_ = attempt;
    attempt_term_ = term;
  }
}

void Voter::lost(Instant now, bool saw_close) {
  if (!follows_) {
    return;
  }
  follows_.reset();
  lost_at_ = now;
  saw_close_ = saw_close;
}

Vote Voter::answer(Instant now, const VoteRequest& request) {
  Vote vote{VoteVerdict::granted,    promise_.term, promise_.configuration,
            assigned_configuration_, attempt_,      attempt_term_,
            now - lost_at_,          saw_close_};
  const bool again = request.term == promise_.term && request.candidate == promise_.to;
  if (follows_) {
    vote.verdict = VoteVerdict::follows;
  } else if (!request.log_position.covers(promise_.configuration)) {
    vote.verdict = VoteVerdict::ahead;
  } else if (request.term <= promise_.term && !again) {
    vote.verdict = VoteVerdict::promised;
  } else {
    promise_.term = vote.newest_term = request.term;
    promise_.to = request.candidate;
    std::erase(promise_.granted, request.candidate);
    promise_.granted.push_back(request.candidate);
    if (promise_.granted.size() > kGrantedMax) {
      promise_.granted.erase(promise_.granted.begin());
    }
  }
  return vote;
}

}  // namespace ddprun
