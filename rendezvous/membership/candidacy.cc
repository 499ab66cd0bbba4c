#include "rendezvous/membership/candidacy.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {

Candidacy::Candidacy(ElectorId self, Succession known, std::size_t place, CandidacyTimes times,
                     Term newest, Instant now)
    : self_(self),
      known_(std::move(known)),
      place_(place),
      times_(times),
      newest_term_(std::max(newest, known_.term)) {
  for (const Roster* roster : {&known_.roster, &known_.roster_before}) {
    for (const ElectorId elector : roster->electors) {
      if (elector != known_.coordinator &&
          std::find(electorate_.begin(), electorate_.end(), elector) == electorate_.end()) {
        electorate_.push_back(elector);
      }
    }
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
      votes_.clear();
      [[fallthrough]];
    case State::asking:
      deadline_ = now + times_.ask_again;
      return true;
    case State::fencing:
      state_ = State::leading;
      return false;
    case State::leading:
    case State::deferring:
      return false;
  }
  return false;
}

void Candidacy::on_vote(Instant now, ElectorId from, const Vote& vote) {
  if (state_ != State::asking && state_ != State::fencing) {
    return;
  }
  if (std::find(electorate_.begin(), electorate_.end(), from) == electorate_.end()) {
    return;
  }
  switch (vote.verdict) {
    case VoteVerdict::follows:
      return;  // asked again: it may only not have noticed yet
    case VoteVerdict::newer:
      state_ = State::deferring;
      return;
    case VoteVerdict::promised:
      if (vote.newest_term >= term_ && !granted_by(from)) {
        begin_again(vote.newest_term, now);
      }
      return;
    case VoteVerdict::granted:
      break;
  }
  if (vote.newest_term != term_) {
    return;  // of an earlier round
  }
  votes_.insert_or_assign(from, Granted{now - vote.lost_for, vote.saw_close, vote.assigned_roster,
                                        vote.attempt.value_or(AttemptNumber{}), vote.attempt_term});
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
  if (state_ == State::leading || state_ == State::deferring) {
    return std::nullopt;
  }
  return deadline_;
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
  return std::to_string(votes_of(known_.roster)) + " of " + std::to_string(all) +
         " nodes were reached, " + std::to_string(all / 2 + 1) + " are needed";
}

std::size_t Candidacy::votes_of(const Roster& roster) const {
  return static_cast<std::size_t>(
      std::count_if(roster.electors.begin(), roster.electors.end(),
                    [this](ElectorId elector) { return granted_by(elector); }));
}

/// The newest roster decides once a world of it was handed out to anybody; until then it may be a
/// plan that a quorum of the roster before never heard of, and that one has to agree too.
bool Candidacy::has_quorum() const {
  if (!gains_quorum(votes_of(known_.roster), known_.roster.electors.size())) {
    return false;
  }
  return is_in_use() || known_.roster_before.electors.empty() ||
         gains_quorum(votes_of(known_.roster_before), known_.roster_before.electors.size());
}

bool Candidacy::is_in_use() const {
  return std::any_of(votes_.begin(), votes_.end(), [this](const auto& vote) {
    return vote.second.assigned_roster == known_.roster.number;
  });
}

Succession Candidacy::inheritance() const {
  Succession inherited = known_;
  if (is_in_use()) {
    inherited.roster_before = {};
  }
  return inherited;
}

/// From when on nobody works for the lost coordinator. It lost its quorum when so many electors had
/// left it that those who had not were less than half; its own fence ends `fence` later. Where all
/// others saw it close, as the death of its process does, nobody can be with it but its own node,
/// whose workers died with it.
Instant Candidacy::quiet_from() const {
  const bool all_left = std::all_of(electorate_.begin(), electorate_.end(), [this](ElectorId id) {
    const auto found = votes_.find(id);
    return found != votes_.end() && found->second.saw_close;
  });
  if (all_left) {
    return Instant::min();
  }
  Instant quiet = Instant::min();
  for (const Roster* roster : {&known_.roster, &known_.roster_before}) {
    const std::size_t needed = roster->electors.size() / 2 + 1;
    std::vector<Instant> left;
    for (const ElectorId elector : roster->electors) {
      if (const auto found = votes_.find(elector); found != votes_.end()) {
        left.push_back(found->second.lost_at);
      }
    }
    if (left.size() >= needed) {  // of a roster that is out of use there may be no quorum
      std::sort(left.begin(), left.end());
      quiet = std::max(quiet, left[needed - 1] + times_.fence);
    }
  }
  return quiet;
}

/// Others are at it too: the one with the lower place comes first again.
void Candidacy::begin_again(Term newest, Instant now) {
  newest_term_ = std::max(newest_term_, newest);
  state_ = State::waiting;
  deadline_ = now + times_.turn * (place_ + 1);
}

}  // namespace ddprun
