#include "rendezvous/membership/election.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {
namespace {

/// As long as another one may need for it: to notice, to be elected, to wait for the fence.
constexpr int kDeferrals = 4;
/// An election among connected voters takes the fence and a few turns: less than two fences.
constexpr int kFencesOfElection = 2;
/// Of the longest pause before voters are asked again.
constexpr int kFirstPausePart = 16;

}  // namespace

/// Configurations are sorted once, because holds() searches them by bisection for each vote.
/// `voters_` lists those of the newest configuration first.
Election::Election(VoterId self, ReplicatedState known, std::size_t place, ElectionTimeouts times,
                   Term newest, Instant now)
    : self_(self),
      known_(std::move(known)),
      place_(place),
      times_(times),
      newest_term_(std::max(newest, known_.term)),
      lacking_from_(now + kFencesOfElection * times.fence) {
  std::sort(known_.configuration.voters.begin(), known_.configuration.voters.end());
  for (Configuration& configuration : known_.before) {
    std::sort(configuration.voters.begin(), configuration.voters.end());
  }
  for (const Configuration* configuration : known_.configurations()) {
    std::copy_if(configuration->voters.begin(), configuration->voters.end(),
                 std::back_inserter(voters_),
                 [&](VoterId one) { return !in_voters_.contains(one); });
    in_voters_.insert(configuration->voters.begin(), configuration->voters.end());
  }
  deadline_ = now + times_.turn * place_;
}

/// A new round takes a term above all that this candidate was told of: votes of an earlier term
/// never count for it (Raft, section 3.4).
bool Election::time_passed(Instant now) {
  if (state_ == State::waiting && now >= deadline_) {
    state_ = State::asking;
    term_ = Term{number(newest_term_) + 1};
    newest_term_ = term_;
    ask_at_ = now;
    ask_pause_ = times_.ask_again / kFirstPausePart;
    forget_votes();
  } else if (state_ == State::fencing && now >= deadline_) {
    state_ = State::leading;
  } else if (state_ == State::deferring && now >= deadline_) {
    begin_again(newest_term_, now);
  }
  if ((state_ != State::asking && state_ != State::fencing) || now < ask_at_) {
    return false;
  }
  ask_at_ = now + std::exchange(ask_pause_, std::min(2 * ask_pause_, times_.ask_again));
  return true;
}

/// Answers come late, twice, and from agents that are no voters of this job. Only the first grant
/// of a voter for the current term counts.
void Election::on_vote(Instant now, VoterId from, const Vote& vote) {
  if (!in_voters_.contains(from)) {
    return;
  }
  if (vote.verdict == VoteVerdict::promised) {
    refused_for_another(now, from, vote);
  }
  if (state_ != State::asking && state_ != State::fencing) {
    return;
  }
  switch (vote.verdict) {
    case VoteVerdict::follows:
      return;  // asked again: it may only not have noticed yet
    case VoteVerdict::ahead:
      defer(now);
      return;
    case VoteVerdict::promised:
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
  note_close(from, vote);
  count(from, vote, lost_at);
  fence_if_granted(now);
}

/// Where more than half gave their word for the same term, to whoever it was, one of those may have
/// won. It waits for its fence then, and is not to be outvoted meanwhile. If this candidate has won
/// that term itself, the refusal only tells what its voter has seen.
void Election::refused_for_another(Instant now, VoterId from, const Vote& vote) {
  const Term newest = vote.newest_term;
  const bool asks = state_ == State::asking || state_ == State::fencing;
  if ((!asks && state_ != State::waiting) || newest < term_ || granted_by(from)) {
    return;
  }
  if (asks && newest == term_ && has_quorum()) {
    note_close(from, vote);
    fence_if_granted(now);
    return;
  }
  if (asks) {
    begin_again(newest, now);
  }
  if (newest == term_ && promised_.insert(from).second &&
      gains_quorum(promised_.size(), known_.configuration.voters.size())) {
    deadline_ = std::max(deadline_, now + times_.fence);
  }
}

/// A voter that is gone grants nothing any more. That matters only once the job is over: see
/// others_are_gone().
void Election::on_gone(Instant now, VoterId from) {
  if (in_voters_.contains(from) && !granted_by(from)) {
    gone_.insert(from);
  }
  if (state_ == State::asking) {
    fence_if_granted(now);
  }
}

void Election::fence_if_granted(Instant now) {
  DDP_CHECK(state_ == State::asking || state_ == State::fencing, "it has asked for votes");
  if (has_quorum() || others_are_gone()) {
    state_ = State::fencing;
    deadline_ = std::max(now, quiet_from());
  }
}

void Election::outvoted(Instant now, Term term) {
  if (term > term_ && state_ != State::leading && state_ != State::deferring) {
    begin_again(term, now);
    // Whoever has this vote may have to wait for its fence, and is not to be outvoted meanwhile.
    deadline_ += times_.fence;
  }
}

bool Election::lacks_voters(Instant now) {
  return state_ == State::asking && now >= lacking_from_ && !std::exchange(said_lacking_, true);
}

std::optional<Instant> Election::next_deadline() const {
  switch (state_) {
    case State::asking:
      return ask_at_;
    case State::fencing:
      return std::min(ask_at_, deadline_);
    case State::waiting:
    case State::deferring:
      return deadline_;
    case State::leading:
      break;
  }
  return std::nullopt;
}

/// A vote may name a newer attempt than this candidate has stored: the voters are told of an
/// attempt after its world is handed out.
AttemptNumber Election::first_attempt() const {
  DDP_CHECK(state_ == State::leading, "a number is for who leads");
  const auto next = [this](AttemptNumber attempt, Term term) {
    return number(attempt) + 2 * (number(term_) - number(term));
  };
  std::uint32_t first = next(known_.attempt, known_.term);
  for (const auto& [voter, granted] : votes_) {
    if (number(granted.attempt_term) > 0) {
      first = std::max(first, next(granted.attempt, granted.attempt_term));
    }
  }
  return AttemptNumber{first};
}

std::string Election::progress_text() const {
  const std::size_t all = known_.configuration.voters.size();
  if (others_are_gone()) {
    return fmt::format("{} of {} nodes are left, and the job is over", votes_.size(),
                       voters_.size());
  }
  return fmt::format("{} of {} nodes were reached, {} are needed",
                     tallies_.empty() ? 0 : tallies_.front().votes, all, all / 2 + 1);
}

/// Of all rounds before: a vote binds its voter in one term only.
void Election::forget_votes() {
  votes_.clear();
  promised_.clear();
  saw_close_.clear();
  tallies_.assign(1 + known_.before.size(), {});
}

/// One vote may count in several configurations, for the next world needs a quorum of each that may
/// be in use. `lost` keeps the instants of a bare majority, so that its top is when it was
/// complete.
void Election::count(VoterId from, const Vote& vote, Instant lost_at) {
  const auto configurations = known_.configurations();
  DDP_CHECK(tallies_.size() == configurations.size(), "each configuration has a tally");
  for (std::size_t place = 0; place < configurations.size(); ++place) {
    const Configuration& configuration = *configurations[place];
    Tally& tally = tallies_[place];
    tally.in_use = tally.in_use || vote.assigned_configuration == configuration.number;
    if (!holds(configuration, from)) {
      continue;
    }
    ++tally.votes;
    DDP_CHECK(tally.votes <= configuration.voters.size(), "a voter is counted once");
    tally.prepared = std::max(tally.prepared, vote.prepared_configuration);
    if (from != known_.coordinator) {
      tally.prepared_by_others = std::max(tally.prepared_by_others, vote.prepared_configuration);
    }
    tally.lost.push(lost_at);
    if (tally.lost.size() > configuration.voters.size() / 2 + 1) {
      tally.lost.pop();
    }
  }
}

bool Election::gains(std::size_t place) const {
  DDP_CHECK(place < tallies_.size(), "each configuration has a tally");
  return gains_quorum(tallies_[place].votes, known_.configurations()[place]->voters.size());
}

/// A world of it would have needed a quorum of each configuration before that had prepared for it.
/// More than half of one had not, and will not, for they gave their word for a later term. (Who has
/// prepared for a newer one may have done so for this one, too.)
bool Election::is_void(std::size_t place) const {
  DDP_CHECK(place < tallies_.size(), "each configuration has a tally");
  const ConfigurationNumber configuration = known_.configurations()[place]->number;
  for (std::size_t before = place + 1; before < tallies_.size(); ++before) {
    if (gains(before) && tallies_[before].prepared < configuration) {
      return true;
    }
  }
  return false;
}

/// One that certainly was in use ends the list: what was before it decides no more.
std::vector<std::size_t> Election::deciding() const {
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
  DDP_CHECK(!places.empty(), "the oldest configuration is never void");
  return places;
}

bool Election::has_quorum() const {
  const auto places = deciding();
  return places.size() <= kBeforeMax &&  // it has to name them all to its standbys
         std::all_of(places.begin(), places.end(), [this](std::size_t one) { return gains(one); });
}

/// The job has ended, and every voter either granted this term or is known to be dead. At least one
/// that granted it must have prepared the end: an isolated coordinator may announce an end, but
/// nobody else prepares it. And at least half must have granted it: the rest was no majority, so
/// none of them can have led and come to another end.
bool Election::others_are_gone() const {
  const bool is_over = known_.ends && !tallies_.empty() &&
                       tallies_.front().prepared_by_others == known_.configuration.number &&
                       half_granted() && deciding().size() <= kBeforeMax;
  return is_over && votes_.size() + gone_.size() == voters_.size();
}

/// Of each configuration. The rest of it is no majority, and led to no other end.
bool Election::half_granted() const {
  const auto configurations = known_.configurations();
  return std::equal(tallies_.begin(), tallies_.end(), configurations.begin(),
                    [](const Tally& tally, const Configuration* configuration) {
                      return 2 * tally.votes >= configuration->voters.size();
                    });
}

/// Whatever else was planned up to now came to nothing: more than half of each that decides had not
/// prepared for it, and will not. Where all others are gone, each configuration keeps those of its
/// voters that are left. Its half of them meets every majority of the whole configuration, since
/// the dead never vote. Half of all that are left, as one configuration, would not: a majority of a
/// configuration that does not store the end could elect another leader beside this one.
ReplicatedState Election::inheritance() const {
  ReplicatedState inherited = known_;
  inherited.before.clear();
  inherited.settled = known_.configuration.number;
  const auto configurations = known_.configurations();
  const auto places = deciding();
  inherited.configuration = *configurations[places.front()];
  for (auto place = places.begin() + 1; place != places.end(); ++place) {
    inherited.before.push_back(*configurations[*place]);
  }
  if (others_are_gone()) {
    const auto is_gone = [this](VoterId one) { return !granted_by(one); };
    std::erase_if(inherited.configuration.voters, is_gone);
    for (Configuration& one : inherited.before) {
      std::erase_if(one.voters, is_gone);
    }
  }
  return inherited;
}

/// The lost coordinator is not asked about itself.
void Election::note_close(VoterId from, const Vote& vote) {
  DDP_CHECK(vote.newest_term == term_, "of an earlier loss nothing is to be told");
  if (vote.saw_close && from != known_.coordinator) {
    saw_close_.insert(from);
  }
}

bool Election::all_saw_close(std::size_t place) const {
  const std::vector<VoterId>& voters = known_.configurations()[place]->voters;
  return std::all_of(voters.begin(), voters.end(), [this](VoterId one) {
    return one == known_.coordinator || saw_close_.contains(one);
  });
}

/// From when on nobody works for the lost coordinator. It lost its quorum when so many voters had
/// left it that those who had not were less than half; its own fence ends `fence` later. Where all
/// others saw it close, as the death of its process does, nobody can be with it but its own node,
/// whose workers died with it.
Instant Election::quiet_from() const {
  if (known_.ends) {
    return Instant::min();  // no world follows
  }
  const auto places = deciding();
  if (std::all_of(places.begin(), places.end(),
                  [this](std::size_t one) { return all_saw_close(one); })) {
    return Instant::min();
  }
  return leases_end();
}

/// For each configuration with a quorum of votes: the coordinator lost its own quorum of that one
/// when the last of a bare majority had left it, and its lease ends a fence later.
Instant Election::leases_end() const {
  Instant quiet = Instant::min();
  for (std::size_t place = 0; place < tallies_.size(); ++place) {
    if (gains(place)) {  // of one out of use it may have none
      quiet = std::max(quiet, tallies_[place].lost.top() + times_.fence);
    }
  }
  return quiet;
}

/// A voter rejected us because it prepared a newer configuration. Yield once, for kDeferrals
/// leases, so that a candidate that knows this configuration can win. If none does, no live
/// candidate knows it, and a majority without that voter may proceed.
void Election::defer(Instant now) {
  DDP_CHECK(state_ == State::asking || state_ == State::fencing, "only an answer defers it");
  if (!std::exchange(has_deferred_, true)) {
    state_ = State::deferring;
    deadline_ = now + kDeferrals * times_.fence;
  }
}

/// Others are at it too: the one with the lower place comes first again.
void Election::begin_again(Term newest, Instant now) {
  DDP_CHECK(state_ != State::leading, "a leader stands for election no more");
  newest_term_ = std::max(newest_term_, newest);
  state_ = State::waiting;
  deadline_ = now + times_.turn * (place_ + 1);
}

}  // namespace ddprun
