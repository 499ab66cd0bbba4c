#include "rendezvous/membership/candidacy.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

constexpr ElectorId e(std::uint64_t id) {
  return ElectorId{id};
}

/// Electors 1 to `nodes`; the first was the coordinator, the second is the candidate.
Succession known(std::uint64_t nodes) {
  Succession known{Term{1}, Term{1}, e(1), AttemptNumber{4}, {RosterNumber{3}, {}}, {}, {}};
  for (std::uint64_t id = 1; id <= nodes; ++id) {
    known.roster.electors.push_back(e(id));
  }
  return known;
}

Candidacy asking(const Succession& known) {
  Candidacy candidacy(e(2), known, 0, {100ms, 50ms, 1s}, Term{1}, 0ns);
  REQUIRE(candidacy.time_passed(0ns));
  REQUIRE(candidacy.state() == Candidacy::State::asking);
  return candidacy;
}

Vote granted(Instant lost_for, bool saw_close = false) {
  Vote vote;
  vote.verdict = VoteVerdict::granted;
  vote.newest_term = Term{2};
  vote.prepared_roster = vote.assigned_roster = RosterNumber{3};
  vote.lost_for = lost_for;
  vote.saw_close = saw_close;
  return vote;
}

}  // namespace

TEST_CASE("A candidate waits until a fence after the loss by which a quorum had left") {
  Candidacy candidacy = asking(known(5));
  candidacy.on_vote(10s, e(2), granted(900ms));
  candidacy.on_vote(10s, e(3), granted(100ms));
  CHECK(candidacy.state() == Candidacy::State::asking);
  candidacy.on_vote(10s, e(3), granted(100ms));  // said twice
  CHECK(candidacy.state() == Candidacy::State::asking);
  candidacy.on_vote(10s, e(9), granted(100ms));  // no elector
  CHECK(candidacy.state() == Candidacy::State::asking);
  candidacy.on_vote(10s, e(4), granted(300ms));
  REQUIRE(candidacy.state() == Candidacy::State::fencing);
  CHECK(candidacy.next_deadline() == 10s - 100ms + 1s);
  // One that left earlier makes the quorum older.
  candidacy.on_vote(10s, e(5), granted(800ms));
  CHECK(candidacy.next_deadline() == 10s - 300ms + 1s);
}

TEST_CASE("A candidate need not wait when all others saw the coordinator close") {
  Candidacy candidacy = asking(known(4));
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    CHECK(candidacy.state() == Candidacy::State::asking);
    candidacy.on_vote(10s, e(id), granted(1ms, true));
  }
  REQUIRE(candidacy.state() == Candidacy::State::fencing);
  CHECK(candidacy.next_deadline() == 10s);
}

TEST_CASE("The dead of the roster before do not make a candidate wait once the newest is in use") {
  Succession both = known(4);
  both.before = {{RosterNumber{2}, {e(1), e(2), e(3), e(9)}}};
  Candidacy candidacy = asking(both);
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    candidacy.on_vote(10s, e(id), granted(1ms, true));
  }
  REQUIRE(candidacy.state() == Candidacy::State::fencing);
  CHECK(candidacy.next_deadline() == 10s);
}

TEST_CASE("A standby that voted for another one gives it the time of its fence before it stands") {
  Candidacy later(e(3), known(5), 1, {100ms, 50ms, 1s}, Term{1}, 0ns);
  later.outvoted(50ms, Term{2});
  CHECK_FALSE(later.time_passed(1000ms));
  CHECK(later.state() == Candidacy::State::waiting);
  CHECK(later.next_deadline() == 50ms + 1s + 200ms);
  CHECK(later.time_passed(1250ms));
  CHECK(later.request().term == Term{3});
}

TEST_CASE("A roster of which no world was handed out needs a quorum of the one before, too") {
  Succession both = known(3);
  both.before = {{RosterNumber{2}, {e(1), e(2), e(6), e(7), e(8)}}};
  Candidacy candidacy = asking(both);
  CHECK(candidacy.electorate() == std::vector<ElectorId>{e(1), e(2), e(3), e(6), e(7), e(8)});
  Vote before = granted(0ns);
  before.assigned_roster = RosterNumber{2};
  for (const std::uint64_t id : {2U, 3U, 6U}) {
    candidacy.on_vote(10s, e(id), before);
    CHECK(candidacy.state() == Candidacy::State::asking);
  }
  candidacy.on_vote(10s, e(7), before);
  CHECK(candidacy.state() == Candidacy::State::fencing);
}

TEST_CASE("Votes of a round that was given up do not count in the next") {
  Candidacy candidacy = asking(known(5));
  candidacy.on_vote(10s, e(2), granted(1ms));
  candidacy.on_vote(10s, e(3), granted(1ms));
  Vote promised;
  promised.verdict = VoteVerdict::promised;
  promised.newest_term = Term{2};
  candidacy.on_vote(10s, e(4), promised);
  REQUIRE(candidacy.state() == Candidacy::State::waiting);
  REQUIRE(candidacy.time_passed(11s));
  CHECK(candidacy.request().term == Term{3});
  CHECK(candidacy.progress_text() == "0 of 5 nodes were reached, 3 are needed");
}

TEST_CASE("Once the job is over, those who are left need no quorum, and decide") {
  Succession over = known(5);
  over.before = {{RosterNumber{2}, {e(1), e(2), e(6)}}};
  over.ends = true;
  Vote vote = granted(1ms);
  vote.assigned_roster = RosterNumber{2};
  const auto asking_alone = [&] {
    Candidacy candidacy = asking(over);
    for (const std::uint64_t id : {1U, 4U, 5U, 6U, 9U}) {
      candidacy.on_gone(10s, e(id));
      candidacy.on_gone(10s, e(id));
    }
    vote.prepared_roster = RosterNumber{2};
    candidacy.on_vote(10s, e(2), vote);
    CHECK(candidacy.state() == Candidacy::State::asking);  // the third may follow somebody
    return candidacy;
  };
  Candidacy unsure = asking_alone();
  unsure.on_vote(10s, e(3), vote);  // nobody has prepared for what one coordinator said
  CHECK(unsure.state() == Candidacy::State::asking);

  Candidacy candidacy = asking_alone();
  vote.prepared_roster = RosterNumber{3};
  candidacy.on_vote(10s, e(3), vote);
  REQUIRE(candidacy.state() == Candidacy::State::fencing);
  CHECK(candidacy.next_deadline() == 10s);
  CHECK(candidacy.progress_text() == "2 of 6 nodes are left, and the job is over");
  CHECK(candidacy.inheritance().roster == Roster{RosterNumber{3}, {e(2), e(3)}});
  CHECK(candidacy.inheritance().before.empty());
}

TEST_CASE("As long as the job goes on, who is gone is not counted") {
  Candidacy candidacy = asking(known(3));
  candidacy.on_vote(10s, e(2), granted(1ms));
  candidacy.on_gone(10s, e(1));
  candidacy.on_gone(10s, e(3));
  CHECK(candidacy.state() == Candidacy::State::asking);
  CHECK(candidacy.progress_text() == "1 of 3 nodes were reached, 2 are needed");
}

TEST_CASE("Ten thousand votes take a time that is linear in their number") {
  // A walk over all for each vote would be 10^8 steps and more, again and again: minutes.
  constexpr std::uint64_t kNodes = 10'000;
  const Succession all = known(kNodes);
  for (int round = 0; round < 20; ++round) {
    Candidacy candidacy = asking(all);
    for (std::uint64_t id = 2; id <= kNodes; ++id) {
      candidacy.on_vote(10s, e(id), granted(std::chrono::microseconds(id)));
    }
    CHECK(candidacy.state() == Candidacy::State::fencing);
    // The 5,001st that left is the one whose loss was noticed as the 4,999th of those that came.
    CHECK(candidacy.next_deadline() == 10s - std::chrono::microseconds(5'000) + 1s);
  }
}
