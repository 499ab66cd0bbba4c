#include "rendezvous/membership/elector.h"

#include <algorithm>

namespace ddprun {
namespace {

/// Candidates of one search for a coordinator that are told of.
constexpr std::size_t kPromisesMax = 4;

}  // namespace

bool Elector::follow(Term term) {
  if (term < term_) {
    return false;
  }
  term_ = followed_ = term;
  follows_ = true;
  promised_to_.reset();
  promises_.clear();
  return true;
}

void Elector::prepared(RosterNumber roster) {
  seen_roster_ = std::max(seen_roster_, roster);
}

void Elector::assigned(RosterNumber roster, AttemptNumber attempt) {
  prepared(roster);
  assigned_roster_ = std::max(assigned_roster_, roster);
  if (!attempt_ || attempt > *attempt_) {
    attempt_ = attempt;
    attempt_term_ = term_;
  }
}

void Elector::lost(Instant now, bool saw_close) {
  if (!follows_) {
    return;
  }
  follows_ = false;
  lost_at_ = now;
  saw_close_ = saw_close;
}

Vote Elector::answer(Instant now, const VoteRequest& request) {
  Vote vote{VoteVerdict::granted, term_, assigned_roster_, attempt_, attempt_term_, {}, false};
  const bool again = promised_to_ == request.candidate && request.term == term_;
  if (follows_) {
    vote.verdict = VoteVerdict::follows;
  } else if (seen_roster_ > request.roster) {
    vote.verdict = VoteVerdict::newer;
  } else if (request.term <= term_ && !again) {
    vote.verdict = VoteVerdict::promised;
  } else {
    term_ = request.term;
    promised_to_ = request.candidate;
    if (promises_.size() <= kPromisesMax &&
        std::find(promises_.begin(), promises_.end(), request.candidate) == promises_.end()) {
      promises_.push_back(request.candidate);
    }
    vote.newest_term = term_;
    vote.lost_for = now - lost_at_;
    vote.saw_close = saw_close_;
  }
  return vote;
}

void Elector::give_up(ElectorId self, std::vector<FormerElector>& former) const {
  if (promises_.empty()) {
    former.push_back({self, {}, followed_});
  } else if (promises_.size() <= kPromisesMax) {
    for (const ElectorId candidate : promises_) {
      former.push_back({self, candidate, followed_});
    }
  }
  while (former.size() > kFormerMax) {
    std::erase_if(former, [oldest = former.front().elector](const FormerElector& one) {
      return one.elector == oldest;
    });
  }
}

}  // namespace ddprun
