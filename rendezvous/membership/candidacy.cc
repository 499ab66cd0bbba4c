#include "rendezvous/membership/candidacy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/backing.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {
namespace {

/// As long as another one may need for it: to notice, to be elected, to wait for the fence.
constexpr int kDeferrals = 4;

}  // namespace

Candidacy::Candidacy(ElectorId self, Succession known, std::size_t place, CandidacyTimes times,
                     Term newest, Instant now)
    : self_(self),
      known_(std::move(known)),
      place_(place),
      times_(times),
      newest_term_(std::max(newest, known_.term)) {
  for (Roster* roster : {&known_.roster, &known_.roster_before}) {
    std::sort(roster->electors.begin(), roster->electors.end());
    std::copy_if(
        roster->electors.begin(), roster->electors.end(), std::back_inserter(electorate_),
        [&](ElectorId one) { return roster == &known_.roster || !holds(known_.roster, one); });
  }
  deadline_ = now + times_.turn * place_;
}

bool Candidacy::time_passed(Instant now) {
  if (now < deadline_) {
    return false;
  }
  switch (state_) {
    case State::waiting:
      state_ = State::asking;
      term_ = Term{number(newest_term_) + 1};
      newest_term_ = term_;
      forget_votes();
      [[fallthrough]];
    case State::asking:
      deadline_ = now + times_.ask_again;
      return true;
    case State::fencing:
      state_ = State::leading;
      return false;
    case State::deferring:
      begin_again(newest_term_, now);
      return false;
    case State::leading:
      return false;
  }
  return false;
}

void Candidacy::on_vote(Instant now, ElectorId from, const Vote& vote) {
  if (state_ != State::asking && state_ != State::fencing) {
    return;
  }
  if (!holds(known_.roster, from) && !holds(known_.roster_before, from)) {
    return;
  }
  switch (vote.verdict) {
    case VoteVerdict::follows:
      return;  // asked again: it may only not have noticed yet
    case VoteVerdict::ahead:
      defer(now);
      return;
    case VoteVerdict::promised:
      if (vote.newest_term >= term_ && !granted_by(from)) {
        begin_again(vote.newest_term, now);
      }
      return;
    case VoteVerdict::granted:
      break;
  }
  if (vote.newest_term != term_ || granted_by(from)) {
    return;  // of an earlier round, or said twice
  }
  const Instant lost_at = now - vote.lost_for;
  votes_.emplace(from, Granted{vote.attempt.value_or(AttemptNumber{}), vote.attempt_term});
  count(known_.roster, newest_, from, lost_at);
  count(known_.roster_before, before_, from, lost_at);
  saw_close_ += vote.saw_close && from != known_.coordinator ? 1 : 0;
  in_use_ = in_use_ || vote.assigned_roster == known_.roster.number;
  prepared_ = prepared_ ||
              (vote.prepared_roster == known_.roster.number && holds(known_.roster_before, from));
  if (has_quorum()) {
    state_ = State::fencing;
    deadline_ = std::max(now, quiet_from());
  }
}

void Candidacy::outvoted(Instant now, Term term) {
  if (term > term_ && (state_ == State::asking || state_ == State::fencing)) {
    begin_again(term, now);
  }
}

std::optional<Instant> Candidacy::next_deadline() const {
  return state_ == State::leading ? std::nullopt : std::optional(deadline_);
}

AttemptNumber Candidacy::first_attempt() const {
  DDP_CHECK(state_ == State::leading, "a number is for who leads");
  const auto next = [this](AttemptNumber attempt, Term term) {
    return number(attempt) + 2 * (number(term_) - number(term));
  };
  std::uint32_t first = next(known_.attempt, known_.term);
  for (const auto& [elector, granted] : votes_) {
    if (number(granted.attempt_term) > 0) {
      first = std::max(first, next(granted.attempt, granted.attempt_term));
    }
  }
  return AttemptNumber{first};
}

std::string Candidacy::progress_text() const {
  const std::size_t all = known_.roster.electors.size();
  return std::to_string(newest_.votes) + " of " + std::to_string(all) + " nodes were reached, " +
         std::to_string(all / 2 + 1) + " are needed";
}

void Candidacy::forget_votes() {
  votes_.clear();
  newest_ = {};
  before_ = {};
  saw_close_ = 0;
  in_use_ = prepared_ = false;
}

void Candidacy::count(const Roster& roster, Tally& tally, ElectorId from, Instant lost_at) const {
  if (!holds(roster, from)) {
    return;
  }
  ++tally.votes;
  tally.lost.push(lost_at);
  if (tally.lost.size() > roster.electors.size() / 2 + 1) {
    tally.lost.pop();
  }
}

/// The newest roster decides once a world of it was handed out to anybody; until then it may be a
/// plan that a quorum of the roster before never heard of, and that one has to agree too.
bool Candidacy::has_quorum() const {
  if (newest_is_void()) {
    return true;
  }
  const bool before_agrees = in_use_ || known_.roster_before.electors.empty() ||
                             gains_quorum(before_.votes, known_.roster_before.electors.size());
  return before_agrees && gains_quorum(newest_.votes, known_.roster.electors.size());
}

/// A world of it would have needed a quorum of the roster before that had prepared for it. More
/// than half had not, and will not, for they gave their word for a later term.
bool Candidacy::newest_is_void() const {
  return !in_use_ && !prepared_ &&
         gains_quorum(before_.votes, known_.roster_before.electors.size());
}

/// A roster that is void leaves its number to the one before: who has prepared for it knows no more
/// than others do.
Succession Candidacy::inheritance() const {
  Succession inherited = known_;
  if (newest_is_void()) {
    inherited.roster.electors = known_.roster_before.electors;
  }
  if (in_use_) {
    inherited.roster_before.number = known_.roster.number;
  }
  if (in_use_ || newest_is_void()) {
    inherited.roster_before.electors.clear();
  }
  return inherited;
}

/// From when on nobody works for the lost coordinator. It lost its quorum when so many electors had
/// left it that those who had not were less than half; its own fence ends `fence` later. Where all
/// others saw it close, as the death of its process does, nobody can be with it but its own node,
/// whose workers died with it.
Instant Candidacy::quiet_from() const {
  const auto others = static_cast<std::size_t>(
      std::count_if(electorate_.begin(), electorate_.end(),
                    [this](ElectorId one) { return one != known_.coordinator; }));
  if (saw_close_ == others) {
    return Instant::min();
  }
  Instant quiet = Instant::min();
  for (const auto& [roster, tally] :
       {std::pair(&known_.roster, &newest_), std::pair(&known_.roster_before, &before_)}) {
    if (gains_quorum(tally->votes,
                     roster->electors.size())) {  // of one out of use it may have none
      quiet = std::max(quiet, tally->lost.top() + times_.fence);
    }
  }
  return quiet;
}

/// Whoever knows more stands for it, and shall not be disturbed. Where nobody does, what that
/// elector has prepared for is known to none who could go on with it: a majority without it can.
void Candidacy::defer(Instant now) {
  if (!std::exchange(has_deferred_, true)) {
    state_ = State::deferring;
    deadline_ = now + kDeferrals * times_.fence;
  }
}

/// Others are at it too: the one with the lower place comes first again.
void Candidacy::begin_again(Term newest, Instant now) {
  newest_term_ = std::max(newest_term_, newest);
  state_ = State::waiting;
  deadline_ = now + times_.turn * (place_ + 1);
}

}  // namespace ddprun
