#include "rendezvous/membership/election.h"

#include <catch2/catch.hpp>

#include "rendezvous/membership/leadership.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

constexpr VoterId e(std::uint64_t id) {
  return VoterId{id};
}

/// Voters 1 to `nodes`; the first was the coordinator, the second is the candidate.
ReplicatedState known(std::uint64_t nodes) {
  ReplicatedState known{Term{1}, Term{1}, e(1), AttemptNumber{4}, {ConfigurationNumber{3}, {}},
                        {},      {}};
  for (std::uint64_t id = 1; id <= nodes; ++id) {
    known.configuration.voters.push_back(e(id));
  }
  return known;
}

Election asking(const ReplicatedState& known) {
  Election election(e(2), known, 0, {100ms, 50ms, 1s}, Term{1}, 0ns);
  REQUIRE(election.time_passed(0ns));
  REQUIRE(election.state() == Election::State::asking);
  return election;
}

Vote granted(Instant lost_for, bool saw_close = false) {
  Vote vote;
  vote.verdict = VoteVerdict::granted;
  vote.newest_term = Term{2};
  vote.prepared_configuration = vote.assigned_configuration = ConfigurationNumber{3};
  vote.lost_for = lost_for;
  vote.saw_close = saw_close;
  return vote;
}

Vote promised(Term term, bool saw_close = false) {
  Vote vote;
  vote.verdict = VoteVerdict::promised;
  vote.newest_term = term;
  vote.saw_close = saw_close;
  return vote;
}

/// When it leads if it receives no further vote.
Instant leads_at(Election election, Instant now) {
  REQUIRE(election.state() == Election::State::fencing);
  while (election.state() != Election::State::leading) {
    static_cast<void>(election.time_passed(now));
    now = std::max(now, election.next_deadline().value_or(now));
  }
  return now;
}

}  // namespace

TEST_CASE("A candidate waits until a fence after the loss by which a quorum had left") {
  Election election = asking(known(5));
  election.on_vote(10s, e(2), granted(900ms));
  election.on_vote(10s, e(3), granted(100ms));
  CHECK(election.state() == Election::State::asking);
  election.on_vote(10s, e(3), granted(100ms));  // said twice
  CHECK(election.state() == Election::State::asking);
  election.on_vote(10s, e(9), granted(100ms));  // no voter
  CHECK(election.state() == Election::State::asking);
  election.on_vote(10s, e(4), granted(300ms));
  CHECK(leads_at(election, 10s) == 10s - 100ms + 1s);
  // One that left earlier makes the quorum older.
  election.on_vote(10s, e(5), granted(800ms));
  CHECK(leads_at(election, 10s) == 10s - 300ms + 1s);
}

TEST_CASE("A candidate need not wait when all others saw the coordinator close") {
  Election election = asking(known(4));
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    CHECK(election.state() == Election::State::asking);
    election.on_vote(10s, e(id), granted(1ms, true));
  }
  CHECK(leads_at(election, 10s) == 10s);
}

TEST_CASE("A voter that still ended its workers is asked again by a candidate that waits") {
  Election election = asking(known(5));
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    election.on_vote(10s, e(id), granted(1ms, true));
  }
  REQUIRE(election.state() == Election::State::fencing);
  // After pauses that double up to 50 ms: five of them since it stood.
  REQUIRE(election.time_passed(10s));
  std::vector<Instant> asked;
  while (*election.next_deadline() < 10s + 150ms) {
    const Instant due = *election.next_deadline();
    CHECK_FALSE(election.time_passed(due - 1us));
    REQUIRE(election.time_passed(due));
    asked.push_back(due - 10s);
  }
  CHECK(asked == std::vector<Instant>{6250us, 18750us, 43750us, 93750us, 143750us});
  election.on_vote(10s + 151ms, e(5), granted(1ms, true));
  CHECK(leads_at(election, 10s + 151ms) == 10s + 151ms);
}

TEST_CASE("What a voter of another candidate has seen counts, too") {
  Election election = asking(known(5));
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    election.on_vote(10s, e(id), granted(1ms, true));
  }
  SECTION("it saw the coordinator close") {
    election.on_vote(10s + 1ms, e(5), promised(Term{2}, true));
    CHECK(leads_at(election, 10s + 1ms) == 10s + 1ms);
  }
  SECTION("it did not see it") {
    election.on_vote(10s + 1ms, e(5), promised(Term{2}));
    CHECK(leads_at(election, 10s + 1ms) == 10s - 1ms + 1s);
  }
  SECTION("an earlier loss") {
    election.on_vote(10s + 1ms, e(5), promised(Term{1}, true));
    CHECK(leads_at(election, 10s + 1ms) == 10s - 1ms + 1s);
  }
  SECTION("somebody may have been elected since") {
    election.on_vote(10s + 1ms, e(5), promised(Term{3}, true));
    CHECK(election.state() == Election::State::waiting);
  }
}

TEST_CASE(
    "The dead of the configuration before do not make a candidate wait once the newest is in use") {
  ReplicatedState both = known(4);
  both.before = {{ConfigurationNumber{2}, {e(1), e(2), e(3), e(9)}}};
  Election election = asking(both);
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    election.on_vote(10s, e(id), granted(1ms, true));
  }
  CHECK(leads_at(election, 10s) == 10s);
}

TEST_CASE("A standby that voted for another one gives it the time of its fence before it stands") {
  Election later(e(3), known(5), 1, {100ms, 50ms, 1s}, Term{1}, 0ns);
  later.outvoted(50ms, Term{2});
  CHECK_FALSE(later.time_passed(1000ms));
  CHECK(later.state() == Election::State::waiting);
  CHECK(later.next_deadline() == 50ms + 1s + 200ms);
  CHECK(later.time_passed(1250ms));
  CHECK(later.request().term == Term{3});
}

TEST_CASE(
    "A configuration of which no world was handed out needs a quorum of the one before, too") {
  ReplicatedState both = known(3);
  both.before = {{ConfigurationNumber{2}, {e(1), e(2), e(6), e(7), e(8)}}};
  Election election = asking(both);
  CHECK(election.voters() == std::vector<VoterId>{e(1), e(2), e(3), e(6), e(7), e(8)});
  Vote before = granted(0ns);
  before.assigned_configuration = ConfigurationNumber{2};
  for (const std::uint64_t id : {2U, 3U, 6U}) {
    election.on_vote(10s, e(id), before);
    CHECK(election.state() == Election::State::asking);
  }
  election.on_vote(10s, e(7), before);
  CHECK(election.state() == Election::State::fencing);
}

TEST_CASE("Votes of a round that was given up do not count in the next") {
  Election election = asking(known(5));
  election.on_vote(10s, e(2), granted(1ms));
  election.on_vote(10s, e(3), granted(1ms));
  election.on_vote(10s, e(4), promised(Term{2}));
  REQUIRE(election.state() == Election::State::waiting);
  REQUIRE(election.time_passed(11s));
  CHECK(election.request().term == Term{3});
  CHECK(election.progress_text() == "0 of 5 nodes were reached, 3 are needed");
}

TEST_CASE("Who is refused by most voters for another one's sake waits for the fence of that one") {
  Election election = asking(known(5));
  const Vote refusal = promised(election.request().term);
  election.on_vote(10s, e(3), refusal);
  election.on_vote(10s, e(3), refusal);  // said twice
  election.on_vote(10s, e(4), refusal);
  CHECK(election.state() == Election::State::waiting);
  CHECK(election.next_deadline() == 10s + 100ms);
  election.on_vote(10s, e(5), refusal);
  CHECK(election.next_deadline() == 10s + 1s);
}

TEST_CASE("Once the job is over, half of the voters decide where the rest is gone") {
  ReplicatedState over = known(4);
  over.before = {{ConfigurationNumber{2}, {e(1), e(2), e(3), e(6)}}};
  over.ends = true;
  Vote vote = granted(1ms);
  vote.assigned_configuration = ConfigurationNumber{2};
  const auto asking_alone = [&] {
    Election election = asking(over);
    for (const std::uint64_t id : {1U, 4U, 6U, 9U}) {
      election.on_gone(10s, e(id));
      election.on_gone(10s, e(id));
    }
    vote.prepared_configuration = ConfigurationNumber{2};
    election.on_vote(10s, e(2), vote);
    CHECK(election.state() == Election::State::asking);  // the third may follow somebody
    return election;
  };
  Election unsure = asking_alone();
  unsure.on_vote(10s, e(3), vote);  // nobody has prepared for what one coordinator said
  CHECK(unsure.state() == Election::State::asking);

  Election election = asking_alone();
  vote.prepared_configuration = ConfigurationNumber{3};
  election.on_vote(10s, e(3), vote);
  CHECK(leads_at(election, 10s) == 10s);
  CHECK(election.progress_text() == "2 of 5 nodes are left, and the job is over");
  CHECK(election.inheritance().configuration ==
        Configuration{ConfigurationNumber{3}, {e(2), e(3)}});
  CHECK(election.inheritance().before ==
        std::vector<Configuration>{{ConfigurationNumber{2}, {e(2), e(3)}}});
}

TEST_CASE("Those who are left at the end decide in each configuration that they vote in") {
  // The end was planned by 1, and none but 2 and 3 store it; 4 and 5 may elect one of themselves.
  ReplicatedState over = known(3);
  over.before = {{ConfigurationNumber{2}, {e(1), e(4), e(5)}}};
  over.ends = true;
  Election election = asking(over);
  for (const std::uint64_t id : {2U, 3U, 4U, 5U}) {
    Vote vote = granted(1ms);
    vote.assigned_configuration = ConfigurationNumber{2};
    vote.prepared_configuration = ConfigurationNumber{id <= 3 ? 3U : 2U};
    election.on_vote(10s, e(id), vote);
  }
  election.on_gone(10s, e(1));
  REQUIRE(election.state() == Election::State::fencing);
  const ReplicatedState inherited = election.inheritance();
  CHECK(inherited.ends);
  for (const Configuration* one : inherited.configurations()) {
    CHECK(one->voters.size() <= kVotersMax);
  }
  Leadership leadership(Term{2}, e(2), inherited, AttemptNumber{9});
  leadership.joined(NodeId{2}, e(2), {}, std::nullopt);
  leadership.joined(NodeId{3}, e(3), {}, std::nullopt);
  CHECK_FALSE(leadership.quorum_follows());
  leadership.joined(NodeId{4}, e(4), {}, std::nullopt);
  leadership.joined(NodeId{5}, e(5), {}, std::nullopt);
  CHECK(leadership.quorum_follows());
}

TEST_CASE("An end is not repeated by fewer than half, for the others may have come to another") {
  for (const std::uint64_t nodes : {2U, 3U, 4U}) {
    ReplicatedState over = known(nodes);
    over.ends = true;
    Election election = asking(over);
    election.on_vote(10s, e(2), granted(1ms));
    for (std::uint64_t id = 1; id <= nodes; ++id) {
      election.on_gone(10s, e(id));
    }
    CHECK(election.state() == (nodes == 2 ? Election::State::fencing : Election::State::asking));
  }
}

TEST_CASE("As long as the job goes on, who is gone is not counted") {
  Election election = asking(known(3));
  election.on_vote(10s, e(2), granted(1ms));
  election.on_gone(10s, e(1));
  election.on_gone(10s, e(3));
  CHECK(election.state() == Election::State::asking);
  CHECK(election.progress_text() == "1 of 3 nodes were reached, 2 are needed");
}

TEST_CASE("Ten thousand votes take a time that is linear in their number") {
  // A walk over all for each vote would be 10^8 steps and more, again and again: minutes.
  constexpr std::uint64_t kNodes = 10'000;
  const ReplicatedState all = known(kNodes);
  for (int round = 0; round < 20; ++round) {
    Election election = asking(all);
    for (std::uint64_t id = 2; id <= kNodes; ++id) {
      election.on_vote(10s, e(id), granted(std::chrono::microseconds(id)));
    }
    CHECK(election.state() == Election::State::fencing);
    // The 5,001st that left is the one whose loss was noticed as the 4,999th of those that came.
    CHECK(leads_at(election, 10s) == 10s - std::chrono::microseconds(5'000) + 1s);
  }
}
