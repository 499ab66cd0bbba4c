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
  std::sort(known_.roster.electors.begin(), known_.roster.electors.end());
  for (Roster& roster : known_.before) {
    std::sort(roster.electors.begin(), roster.electors.end());
  }
  for (const Roster* roster : known_.rosters()) {
    std::copy_if(roster->electors.begin(), roster->electors.end(), std::back_inserter(electorate_),
                 [&](ElectorId one) { return !in_electorate_.contains(one); });
    in_electorate_.insert(roster->electors.begin(), roster->electors.end());
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
  if (!in_electorate_.contains(from)) {
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
  gone_.erase(from);
  count(from, vote, lost_at);
  fence_if_granted(now);
}

void Candidacy::on_gone(Instant now, ElectorId from) {
  if (in_electorate_.contains(from) && !granted_by(from)) {
    gone_.insert(from);
  }
  if (state_ == State::asking) {
    fence_if_granted(now);
  }
}

void Candidacy::fence_if_granted(Instant now) {
  if (has_quorum() || others_are_gone()) {
    state_ = State::fencing;
    deadline_ = std::max(now, quiet_from());
  }
}

void Candidacy::outvoted(Instant now, Term term) {
  if (term > term_ && state_ != State::leading && state_ != State::deferring) {
    begin_again(term, now);
    // Whoever has this vote may have to wait for its fence, and is not to be outvoted meanwhile.
    deadline_ += times_.fence;
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
  if (others_are_gone()) {
    return std::to_string(votes_.size()) + " of " + std::to_string(electorate_.size()) +
           " nodes are left, and the job is over";
  }
  return std::to_string(tallies_.empty() ? 0 : tallies_.front().votes) + " of " +
         std::to_string(all) + " nodes were reached, " + std::to_string(all / 2 + 1) +
         " are needed";
}

void Candidacy::forget_votes() {
  votes_.clear();
  tallies_.assign(1 + known_.before.size(), {});
}

void Candidacy::count(ElectorId from, const Vote& vote, Instant lost_at) {
  const auto rosters = known_.rosters();
  for (std::size_t place = 0; place < rosters.size(); ++place) {
    const Roster& roster = *rosters[place];
    Tally& tally = tallies_[place];
    tally.in_use = tally.in_use || vote.assigned_roster == roster.number;
    if (!holds(roster, from)) {
      continue;
    }
    ++tally.votes;
    tally.saw_close += vote.saw_close && from != known_.coordinator ? 1 : 0;
    tally.prepared = std::max(tally.prepared, vote.prepared_roster);
    tally.lost.push(lost_at);
    if (tally.lost.size() > roster.electors.size() / 2 + 1) {
      tally.lost.pop();
    }
  }
}

bool Candidacy::gains(std::size_t place) const {
  return gains_quorum(tallies_[place].votes, known_.rosters()[place]->electors.size());
}

/// A world of it would have needed a quorum of each roster before that had prepared for it. More
/// than half of one had not, and will not, for they gave their word for a later term. (Who has
/// prepared for a newer one may have done so for this one, too.)
bool Candidacy::is_void(std::size_t place) const {
  const RosterNumber roster = known_.rosters()[place]->number;
  for (std::size_t before = place + 1; before < tallies_.size(); ++before) {
    if (gains(before) && tallies_[before].prepared < roster) {
      return true;
    }
  }
  return false;
}

/// One that certainly was in use ends the list: what was before it decides no more.
std::vector<std::size_t> Candidacy::deciding() const {
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < tallies_.size(); ++place) {
    if (tallies_[place].in_use) {
      places.push_back(place);
      break;
    }
    if (!is_void(place)) {
      places.push_back(place);
    }
  }
  return places;
}

bool Candidacy::has_quorum() const {
  const auto places = deciding();
  return places.size() <= kBeforeMax &&  // it has to name them all to its standbys
         std::all_of(places.begin(), places.end(), [this](std::size_t one) { return gains(one); });
}

/// None of them can go on with anything, and whoever is left gave its word for this term. One of
/// these has prepared for the end: a coordinator that was left by the others may have told it, too,
/// but nobody prepares for that.
bool Candidacy::others_are_gone() const {
  const bool is_over =
      known_.ends && !tallies_.empty() && tallies_.front().prepared == known_.roster.number;
  return is_over && votes_.size() + gone_.size() == electorate_.size();
}

/// Whatever else was planned up to now came to nothing: more than half of each that decides had not
/// prepared for it, and will not.
Succession Candidacy::inheritance() const {
  Succession inherited = known_;
  inherited.before.clear();
  inherited.settled = known_.roster.number;
  if (others_are_gone()) {
    inherited.roster.electors.clear();  // those who are left decide
    for (const auto& [elector, granted] : votes_) {
      inherited.roster.electors.push_back(elector);
    }
    return inherited;
  }
  const auto rosters = known_.rosters();
  const auto places = deciding();
  inherited.roster = *rosters[places.front()];
  for (auto place = places.begin() + 1; place != places.end(); ++place) {
    inherited.before.push_back(*rosters[*place]);
  }
  return inherited;
}

bool Candidacy::all_saw_close(std::size_t place) const {
  const Roster& roster = *known_.rosters()[place];
  const std::size_t lost = holds(roster, known_.coordinator) ? 1 : 0;
  return tallies_[place].saw_close + lost == roster.electors.size();
}

/// From when on nobody works for the lost coordinator. It lost its quorum when so many electors had
/// left it that those who had not were less than half; its own fence ends `fence` later. Where all
/// others saw it close, as the death of its process does, nobody can be with it but its own node,
/// whose workers died with it.
Instant Candidacy::quiet_from() const {
  if (known_.ends) {
    return Instant::min();  // no world follows
  }
  const auto places = deciding();
  if (std::all_of(places.begin(), places.end(),
                  [this](std::size_t one) { return all_saw_close(one); })) {
    return Instant::min();
  }
  Instant quiet = Instant::min();
  for (std::size_t place = 0; place < tallies_.size(); ++place) {
    if (gains(place)) {  // of one out of use it may have none
      quiet = std::max(quiet, tallies_[place].lost.top() + times_.fence);
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
