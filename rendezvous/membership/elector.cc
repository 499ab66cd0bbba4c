#include "rendezvous/membership/elector.h"

#include <algorithm>

namespace ddprun {

void Elector::follow(Term term, ElectorId coordinator) {
  follows_ = coordinator;
  if (term > pledge_.term) {
    pledge_.term = term;
    pledge_.to = coordinator;
  }
}

bool Elector::prepared(RosterNumber roster, Term term) {
  if (!follows_ || term < pledge_.term || (term == pledge_.term && pledge_.to != *follows_)) {
    return false;
  }
  pledge_.term = term;
  pledge_.to = *follows_;
  pledge_.roster = std::max(pledge_.roster, roster);
  return true;
}

void Elector::assigned(RosterNumber roster, AttemptNumber attempt, Term term) {
  (void)prepared(roster, term);  // it may have been away when it was to
  assigned_roster_ = std::max(assigned_roster_, roster);
  if (!attempt_ || attempt > *attempt_) {
    attempt_ = attempt;
    attempt_term_ = term;
  }
}

void Elector::lost(Instant now, bool saw_close) {
  if (!follows_) {
    return;
  }
  follows_.reset();
  lost_at_ = now;
  saw_close_ = saw_close;
}

Vote Elector::answer(Instant now, const VoteRequest& request) {
  Vote vote{VoteVerdict::granted, pledge_.term,   pledge_.roster, assigned_roster_, attempt_,
            attempt_term_,        now - lost_at_, saw_close_};
  const bool again = request.term == pledge_.term && request.candidate == pledge_.to;
  if (follows_) {
    vote.verdict = VoteVerdict::follows;
  } else if (!request.horizon.covers(pledge_.roster)) {
    vote.verdict = VoteVerdict::ahead;
  } else if (request.term <= pledge_.term && !again) {
    vote.verdict = VoteVerdict::promised;
  } else {
    pledge_.term = vote.newest_term = request.term;
    pledge_.to = request.candidate;
  }
  return vote;
}

}  // namespace ddprun
