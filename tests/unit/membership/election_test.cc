#include <catch2/catch.hpp>

#include "rendezvous/membership/candidacy.h"
#include "rendezvous/membership/elector.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

constexpr ElectorId e(std::uint64_t id) {
  return ElectorId{id};
}
/// `count` rises with the plans of a coordinator.
constexpr RosterNumber roster(std::uint32_t term, std::uint32_t count) {
  return make_roster(Term{term}, e(1), count);
}
/// Of one that knows the first plan alone.
constexpr VoteRequest request(std::uint32_t term, std::uint64_t candidate) {
  return {Term{term}, e(candidate), {{}, roster(1, 1), Term{1}}};
}
constexpr CandidacyTimes kTimes{100ms, 50ms, 3s};

Vote granted(std::uint32_t term, RosterNumber prepared, RosterNumber assigned) {
  Vote vote;
  vote.newest_term = Term{term};
  vote.prepared_roster = prepared;
  vote.assigned_roster = assigned;
  return vote;
}

constexpr RosterNumber kBefore = roster(1, 1);
constexpr RosterNumber kPlanned = roster(1, 3);

/// Of a world of three that elector 1 led; a world of these is planned.
Succession planned(std::vector<ElectorId> electors = {e(1), e(2)}) {
  return {Term{1},
          Term{1},
          e(1),
          AttemptNumber{4},
          {kPlanned, std::move(electors)},
          {{kBefore, {e(1), e(2), e(3)}}},
          kBefore};
}

}  // namespace

TEST_CASE("Rosters of different terms or coordinators never have the same number") {
  CHECK(next_roster(RosterNumber{}, Term{1}, e(1)) == roster(1, 1));
  CHECK(next_roster(roster(1, 1), Term{1}, e(1)) == roster(1, 2));
  CHECK(next_roster(roster(1, 7), Term{3}, e(1)) == roster(3, 1));
  CHECK(next_roster(roster(3, 7), Term{4}, e(2)) > roster(3, 7));
  CHECK(next_roster({}, Term{3}, e(2)) != roster(3, 1));  // who rose to a term that another won
  CHECK(term_of(roster(3, 1)) == Term{3});
  CHECK(count_of(roster(3, 5)) == 5);
}

TEST_CASE(
    "A horizon covers what was settled and what one coordinator planned, not what a rival did") {
  constexpr Horizon risen{roster(1, 4), roster(5, 1), Term{1}};
  CHECK(risen.covers({}));
  CHECK(risen.covers(roster(1, 4)));
  CHECK(risen.covers(roster(1, 9)));  // dropped before it rose
  CHECK(risen.covers(roster(5, 1)));
  CHECK_FALSE(risen.covers(roster(3, 1)));  // of a rival, and maybe in use
  CHECK_FALSE(risen.covers(roster(5, 2)));
  CHECK_FALSE(risen.covers(roster(6, 1)));
  CHECK_FALSE(risen.covers(make_roster(Term{5}, e(0), 1)));  // of who won that term
}

TEST_CASE("An elector grants one candidate a term, and whom it follows none") {
  Elector elector;
  elector.follow(Term{1}, e(1));
  CHECK(elector.answer(1s, request(2, 4)).verdict == VoteVerdict::follows);
  elector.lost(2s, true);
  const Vote vote = elector.answer(5s, request(2, 4));
  CHECK(vote.verdict == VoteVerdict::granted);
  CHECK(vote.lost_for == 3s);
  CHECK(vote.saw_close);
  CHECK(elector.answer(5s, request(2, 4)).verdict == VoteVerdict::granted);  // said twice
  CHECK(elector.answer(5s, request(2, 5)).verdict == VoteVerdict::promised);
  CHECK(elector.answer(5s, request(1, 5)).verdict == VoteVerdict::promised);
  CHECK(elector.answer(5s, request(3, 5)).verdict == VoteVerdict::granted);
  CHECK(elector.answer(5s, request(2, 4)).verdict == VoteVerdict::promised);
}

TEST_CASE(
    "Who follows a coordinator of an older term than it promised stays bound until that rises") {
  Elector elector;
  CHECK(elector.answer(1s, request(5, 4)).verdict == VoteVerdict::granted);
  elector.follow(Term{1}, e(1));
  CHECK(elector.pledge() == Pledge{Term{5}, e(4), {}});
  CHECK_FALSE(elector.prepared(roster(1, 2), Term{1}));
  CHECK_FALSE(elector.prepared(roster(5, 1), Term{5}));  // the other's term
  CHECK(elector.prepared(roster(6, 1), Term{6}));
  CHECK(elector.pledge() == Pledge{Term{6}, e(1), roster(6, 1)});
  elector.lost(2s, false);
  CHECK(elector.answer(3s, request(5, 4)).verdict != VoteVerdict::granted);
}

TEST_CASE("Who has prepared for a roster grants nothing to a candidate that does not know it") {
  Elector elector;
  elector.follow(Term{1}, e(1));
  REQUIRE(elector.prepared(roster(1, 2), Term{1}));
  elector.lost(1s, false);
  CHECK(elector.answer(2s, request(2, 4)).verdict == VoteVerdict::ahead);
  VoteRequest better = request(2, 4);
  better.horizon.newest = roster(1, 2);
  CHECK(elector.answer(2s, better).verdict == VoteVerdict::granted);
}

TEST_CASE("A candidate whose own elector gives its word to another begins again") {
  Candidacy candidacy(e(2), planned(), 0, kTimes, Term{1}, 0s);
  REQUIRE(candidacy.time_passed(0s));
  CHECK(candidacy.request().term == Term{2});
  candidacy.on_vote(0s, e(2), granted(2, kBefore, kBefore));
  candidacy.on_vote(0s, e(3), granted(2, kBefore, kBefore));
  candidacy.outvoted(0s, Term{2});  // its own term is no other
  const auto before = candidacy.state();
  candidacy.outvoted(0s, Term{5});
  CHECK(candidacy.state() == Candidacy::State::waiting);
  CHECK(before != Candidacy::State::waiting);
  REQUIRE(candidacy.time_passed(10s));
  CHECK(candidacy.request().term == Term{6});
  CHECK_FALSE(candidacy.granted_by(e(3)));
}

TEST_CASE("A coordinator that is none any more has a vote") {
  Candidacy candidacy(e(2), planned({e(1), e(2), e(3)}), 0, kTimes, Term{1}, 0s);
  REQUIRE(candidacy.time_passed(0s));
  candidacy.on_vote(0s, e(2), granted(2, kPlanned, kPlanned));
  CHECK(candidacy.state() == Candidacy::State::asking);
  candidacy.on_vote(0s, e(1), granted(2, kPlanned, kPlanned));
  CHECK(candidacy.state() == Candidacy::State::fencing);
}

TEST_CASE("A planned roster decides alone, beside the one before, or not at all") {
  enum class Known : std::uint8_t { used, prepared, void_ };
  for (const Known known : {Known::used, Known::prepared, Known::void_}) {
    Candidacy candidacy(e(2), planned({e(1), e(2), e(4)}), 0, kTimes, Term{1}, 0s);
    REQUIRE(candidacy.time_passed(0s));
    const RosterNumber prepared = known == Known::void_ ? kBefore : kPlanned;
    const RosterNumber assigned = known == Known::used ? kPlanned : kBefore;
    candidacy.on_vote(0s, e(2), granted(2, prepared, assigned));
    candidacy.on_vote(0s, e(3), granted(2, kBefore, kBefore));
    // A majority of the roster before, and none of the planned one: enough where nobody of the
    // former has prepared, for then the planned one never was in use.
    CHECK((candidacy.state() == Candidacy::State::fencing) == (known == Known::void_));
    candidacy.on_vote(0s, e(4), granted(2, prepared, assigned));
    (void)candidacy.time_passed(10s);
    REQUIRE(candidacy.state() == Candidacy::State::leading);
    const Succession inherited = candidacy.inheritance();
    CHECK(inherited.roster.number == (known == Known::void_ ? kBefore : kPlanned));
    CHECK(inherited.roster.electors.back() == (known == Known::void_ ? e(3) : e(4)));
    CHECK(inherited.before.empty() == (known != Known::prepared));
    CHECK(inherited.horizon().covers(kPlanned));
  }
}

TEST_CASE(
    "Who is told of a roster that it does not know waits for others once, then goes on without") {
  Candidacy candidacy(e(2), planned({e(1), e(2), e(3)}), 0, kTimes, Term{1}, 0s);
  REQUIRE(candidacy.time_passed(0s));
  Vote ahead;
  ahead.verdict = VoteVerdict::ahead;
  candidacy.on_vote(0s, e(3), ahead);
  CHECK(candidacy.state() == Candidacy::State::deferring);
  const auto due = candidacy.next_deadline();
  REQUIRE(due);
  CHECK(*due > kTimes.fence);
  (void)candidacy.time_passed(*due);
  CHECK(candidacy.state() == Candidacy::State::waiting);
  REQUIRE(candidacy.time_passed(*candidacy.next_deadline()));
  candidacy.on_vote(*due, e(3), ahead);
  CHECK(candidacy.state() == Candidacy::State::asking);
}

TEST_CASE(
    "Of several rosters that may be in use all decide that are neither void nor before one in "
    "use") {
  // Two coordinators died before they handed out a world: elector 1 led the first, 2 the second.
  Succession known = planned({e(3), e(4), e(5)});
  known.before.insert(known.before.begin(), Roster{roster(1, 2), {e(2), e(3), e(4)}});
  const auto lead = [&](RosterNumber prepared, RosterNumber assigned) {
    Candidacy candidacy(e(3), known, 0, kTimes, Term{1}, 0s);
    REQUIRE(candidacy.time_passed(0s));
    for (const std::uint64_t voter : {1U, 2U, 3U, 4U}) {
      candidacy.on_vote(0s, e(voter), granted(2, prepared, assigned));
    }
    (void)candidacy.time_passed(10s);
    REQUIRE(candidacy.state() == Candidacy::State::leading);
    const Succession inherited = candidacy.inheritance();
    std::vector<RosterNumber> deciding;
    for (const Roster* one : inherited.rosters()) {
      deciding.push_back(one->number);
    }
    CHECK(inherited.settled == kPlanned);
    return deciding;
  };
  using Rosters = std::vector<RosterNumber>;
  CHECK(lead(kBefore, kBefore) == Rosters{kBefore});
  CHECK(lead(roster(1, 2), kBefore) == Rosters{roster(1, 2), kBefore});
  CHECK(lead(kPlanned, roster(1, 2)) == Rosters{kPlanned, roster(1, 2)});
  CHECK(lead(kPlanned, kPlanned) == Rosters{kPlanned});
  // Who has prepared for the newest may have prepared for the one before it, too.
  CHECK(lead(kPlanned, kBefore) == Rosters{kPlanned, roster(1, 2), kBefore});
}
