#include <catch2/catch.hpp>

#include "rendezvous/membership/candidacy.h"
#include "rendezvous/membership/elector.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

constexpr ElectorId e(std::uint64_t id) {
  return ElectorId{id};
}
constexpr VoteRequest request(std::uint32_t term, std::uint64_t candidate) {
  return {Term{term}, e(candidate), RosterNumber{1}};
}
constexpr CandidacyTimes kTimes{100ms, 50ms, 3s};

Vote granted(std::uint32_t term, std::uint32_t assigned_roster) {
  Vote vote;
  vote.newest_term = Term{term};
  vote.assigned_roster = RosterNumber{assigned_roster};
  return vote;
}

/// Of a world of three that elector 1 led; a world of two is planned.
Succession planned() {
  return {Term{1},
          e(1),
          AttemptNumber{4},
          {RosterNumber{2}, {e(1), e(2)}},
          {RosterNumber{1}, {e(1), e(2), e(3)}}};
}

}  // namespace

TEST_CASE("An elector that is given up names everybody who may still count on it") {
  Elector elector;
  REQUIRE(elector.follow(Term{1}));
  elector.lost(1s, false);
  std::vector<FormerElector> former;
  elector.give_up(e(7), former);
  CHECK(former == std::vector<FormerElector>{{e(7), e(0), Term{1}}});
  CHECK(elector.answer(2s, request(2, 4)).verdict == VoteVerdict::granted);
  CHECK(elector.answer(2s, request(3, 5)).verdict == VoteVerdict::granted);
  CHECK(elector.answer(2s, request(4, 4)).verdict == VoteVerdict::granted);
  former.clear();
  elector.give_up(e(7), former);
  CHECK(former == std::vector<FormerElector>{{e(7), e(4), Term{1}}, {e(7), e(5), Term{1}}});
  REQUIRE(elector.follow(Term{4}));
  former.clear();
  elector.give_up(e(7), former);
  CHECK(former == std::vector<FormerElector>{{e(7), e(0), Term{4}}});
}

TEST_CASE("Of an elector with more votes than can be told nothing is told") {
  Elector elector;
  std::vector<FormerElector> former;
  for (std::uint32_t i = 1; i <= 4; ++i) {
    CHECK(elector.answer(1s, request(i, i)).verdict == VoteVerdict::granted);
  }
  elector.give_up(e(7), former);
  CHECK(former.size() == 4);
  CHECK(elector.answer(1s, request(5, 5)).verdict == VoteVerdict::granted);
  std::vector<FormerElector> none;
  elector.give_up(e(7), none);
  CHECK(none.empty());
}

TEST_CASE("The list of former electors is cut by whole electors, the oldest first") {
  Elector elector;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    (void)elector.answer(1s, request(i, i));
  }
  std::vector<FormerElector> former;
  for (std::uint64_t life = 1; life <= 3; ++life) {
    elector.give_up(e(100 + life), former);
  }
  CHECK(former.size() == 6);
  CHECK(former.front().elector == e(102));
  CHECK(former.size() <= kFormerMax);
}

TEST_CASE("A candidate whose own elector gives its word to another begins again") {
  Candidacy candidacy(e(2), planned(), 0, kTimes, Term{1}, 0s);
  REQUIRE(candidacy.time_passed(0s));
  CHECK(candidacy.request().term == Term{2});
  candidacy.on_vote(0s, e(2), granted(2, 1));
  candidacy.on_vote(0s, e(3), granted(2, 1));
  candidacy.outvoted(0s, Term{2});  // its own term is no other
  const auto before = candidacy.state();
  candidacy.outvoted(0s, Term{5});
  CHECK(candidacy.state() == Candidacy::State::waiting);
  CHECK(before != Candidacy::State::waiting);
  REQUIRE(candidacy.time_passed(10s));
  CHECK(candidacy.request().term == Term{6});
  CHECK_FALSE(candidacy.granted_by(e(3)));
}

TEST_CASE("A planned roster is inherited with the one before, until it is known to be in use") {
  for (const std::uint32_t assigned : {1U, 2U}) {
    Succession known = planned();
    known.roster.electors = {e(1), e(2), e(4)};
    Candidacy candidacy(e(2), known, 0, kTimes, Term{1}, 0s);
    REQUIRE(candidacy.time_passed(0s));
    for (const std::uint64_t voter : {2U, 3U, 4U}) {
      candidacy.on_vote(0s, e(voter), granted(2, assigned));
    }
    (void)candidacy.time_passed(10s);
    REQUIRE(candidacy.state() == Candidacy::State::leading);
    CHECK(candidacy.inheritance().roster.number == RosterNumber{2});
    CHECK(candidacy.inheritance().roster_before.electors.empty() == (assigned == 2));
  }
}
