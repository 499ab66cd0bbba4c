#include "rendezvous/membership/voter.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

/// Following an older term than that of its promise binds nothing: the vote for the later one
/// stands until the coordinator has risen above it (keeps).
void Voter::follow(Term term, VoterId coordinator) {
  follows_ = coordinator;
  if (term > promise_.term) {
    promise_.term = term;
    promise_.to = coordinator;
  }
  DDP_CHECK(promise_.term >= term, "the term of a promise never falls");
}

/// A state that does not cover what this voter stores may drop a world that is in use. Of one
/// coordinator it may: a later proposal abandons the earlier ones.
bool Voter::keeps(const ReplicatedState& state) {
  const ConfigurationNumber kept = promise_.configuration;
  const bool is_own = maker_of(kept) == maker_of(state.configuration.number);
  if ((!is_own && !state.log_position().covers(kept)) ||
      !prepared(state.configuration.number, state.term)) {
    return false;
  }
  story_ = state.attempt;
  if (state.settled == state.configuration.number) {
    in_use();
  }
  return true;
}

/// A restart of the same nodes changes no configuration, but uses an attempt number and a restart.
void Voter::has_story_of(AttemptNumber attempt) {
  story_ = std::max(story_, attempt);
}

/// Storing a configuration counts as a vote in its term, so it is refused like one: for an earlier
/// term than promised, or for another coordinator in the same one.
bool Voter::prepared(ConfigurationNumber configuration, Term term) {
  if (!follows_ || term < promise_.term || (term == promise_.term && promise_.to != *follows_)) {
    return false;
  }
  promise_.term = term;
  promise_.to = *follows_;
  DDP_CHECK(follows_.has_value(), "only a follower stores what its coordinator sends");
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

/// Only the first report counts: a connection may be seen to end more than once, and later ones
/// would make the loss look more recent.
void Voter::lost(Instant now, bool saw_close) {
  if (!follows_) {
    return;
  }
  follows_.reset();
  lost_at_ = now;
  saw_close_ = saw_close;
}

/// The order of the refusals matters: a follower says so whatever it knows, and a candidate that
/// knows less is to hear that rather than of a promise. The same vote may be asked for again.
Vote Voter::answer(Instant now, const VoteRequest& request) {
  Vote vote{VoteVerdict::granted,    promise_.term, promise_.configuration,
            assigned_configuration_, attempt_,      attempt_term_,
            now - lost_at_,          saw_close_};
  const bool again = request.term == promise_.term && request.candidate == promise_.to;
  // The election restriction (section 3.6.1 of Ongaro's dissertation) for what is not committed: of
  // those that store one configuration, the successor is one with the newest story. Across
  // configurations attempts are not compared: a proposal may come to nothing.
  const bool has_newer_story =
      request.log_position.newest == promise_.configuration && request.attempt < story_;
  if (follows_) {
    vote.verdict = VoteVerdict::follows;
  } else if (!request.log_position.covers(promise_.configuration) || has_newer_story) {
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
    DDP_CHECK(promise_.granted.size() <= kGrantedMax, "a promise is bounded");
  }
  return vote;
}

}  // namespace ddprun
