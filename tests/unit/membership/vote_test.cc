#include <catch2/catch.hpp>

#include "rendezvous/membership/election.h"
#include "rendezvous/membership/voter.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

constexpr VoterId e(std::uint64_t id) {
  return VoterId{id};
}
/// `count` rises with the plans of a coordinator.
constexpr ConfigurationNumber configuration(std::uint32_t term, std::uint32_t count) {
  return make_configuration(Term{term}, e(1), count);
}
/// Of one that knows the first plan alone.
constexpr VoteRequest request(std::uint32_t term, std::uint64_t candidate) {
  return {Term{term}, e(candidate), {{}, configuration(1, 1), Term{1}}};
}
constexpr ElectionTimeouts kTimes{100ms, 50ms, 3s};

Vote granted(std::uint32_t term, ConfigurationNumber prepared, ConfigurationNumber assigned) {
  Vote vote;
  vote.newest_term = Term{term};
  vote.prepared_configuration = prepared;
  vote.assigned_configuration = assigned;
  return vote;
}

constexpr ConfigurationNumber kBefore = configuration(1, 1);
constexpr ConfigurationNumber kPlanned = configuration(1, 3);

/// Of a world of three that voter 1 led; a world of these is planned.
ReplicatedState planned(std::vector<VoterId> voters = {e(1), e(2)}) {
  return {Term{1},
          Term{1},
          e(1),
          AttemptNumber{4},
          {kPlanned, std::move(voters)},
          {{kBefore, {e(1), e(2), e(3)}}},
          kBefore};
}

}  // namespace

TEST_CASE("Configurations of different terms or coordinators never have the same number") {
  CHECK(next_configuration(ConfigurationNumber{}, Term{1}, e(1)) == configuration(1, 1));
  CHECK(next_configuration(configuration(1, 1), Term{1}, e(1)) == configuration(1, 2));
  CHECK(next_configuration(configuration(1, 7), Term{3}, e(1)) == configuration(3, 1));
  CHECK(next_configuration(configuration(3, 7), Term{4}, e(2)) > configuration(3, 7));
  CHECK(next_configuration({}, Term{3}, e(2)) !=
        configuration(3, 1));  // who rose to a term that another won
  CHECK(term_of(configuration(3, 1)) == Term{3});
  CHECK(count_of(configuration(3, 5)) == 5);
}

TEST_CASE(
    "A log_position covers what was settled and what one coordinator planned, not what a rival "
    "did") {
  constexpr LogPosition risen{configuration(1, 4), configuration(5, 1), Term{1}};
  CHECK(risen.covers({}));
  CHECK(risen.covers(configuration(1, 4)));
  CHECK(risen.covers(configuration(1, 9)));  // dropped before it rose
  CHECK(risen.covers(configuration(5, 1)));
  CHECK_FALSE(risen.covers(configuration(3, 1)));  // of a rival, and maybe in use
  CHECK_FALSE(risen.covers(configuration(5, 2)));
  CHECK_FALSE(risen.covers(configuration(6, 1)));
  CHECK_FALSE(risen.covers(make_configuration(Term{5}, e(0), 1)));  // of who won that term
}

TEST_CASE("A voter grants one candidate a term, and whom it follows none") {
  Voter voter;
  voter.follow(Term{1}, e(1));
  CHECK(voter.answer(1s, request(2, 4)).verdict == VoteVerdict::follows);
  voter.lost(2s, true);
  const Vote vote = voter.answer(5s, request(2, 4));
  CHECK(vote.verdict == VoteVerdict::granted);
  CHECK(vote.lost_for == 3s);
  CHECK(vote.saw_close);
  CHECK(voter.answer(5s, request(2, 4)).verdict == VoteVerdict::granted);  // said twice
  CHECK(voter.answer(5s, request(2, 5)).verdict == VoteVerdict::promised);
  CHECK(voter.answer(5s, request(1, 5)).verdict == VoteVerdict::promised);
  CHECK(voter.answer(5s, request(3, 5)).verdict == VoteVerdict::granted);
  CHECK(voter.answer(5s, request(2, 4)).verdict == VoteVerdict::promised);
}

namespace {

ReplicatedState state(std::uint32_t term, std::uint32_t count, VoterId coordinator = e(1)) {
  ReplicatedState state;
  state.term = state.since = Term{term};
  state.coordinator = coordinator;
  state.configuration.number = make_configuration(Term{term}, coordinator, count);
  return state;
}

}  // namespace

TEST_CASE(
    "Who follows a coordinator of an older term than it promised stays bound until that rises") {
  Voter voter;
  CHECK(voter.answer(1s, request(5, 4)).verdict == VoteVerdict::granted);
  voter.follow(Term{1}, e(1));
  CHECK(voter.promise() == Promise{Term{5}, e(4), {}, {e(4)}});
  CHECK_FALSE(voter.keeps(state(1, 2)));
  CHECK_FALSE(voter.keeps(state(5, 1)));  // the other's term
  CHECK(voter.keeps(state(6, 1)));
  // What is only proposed may come to nothing, and then the other one may lead.
  CHECK(voter.promise() == Promise{Term{6}, e(1), configuration(6, 1), {e(4)}});
  voter.in_use();
  CHECK(voter.promise() == Promise{Term{6}, e(1), configuration(6, 1)});
  voter.lost(2s, false);
  CHECK(voter.answer(3s, request(5, 4)).verdict != VoteVerdict::granted);
}

TEST_CASE(
    "Who has prepared for a configuration grants nothing to a candidate that does not know it") {
  Voter voter;
  voter.follow(Term{1}, e(1));
  REQUIRE(voter.keeps(state(1, 2)));
  voter.lost(1s, false);
  CHECK(voter.answer(2s, request(2, 4)).verdict == VoteVerdict::ahead);
  VoteRequest better = request(2, 4);
  better.log_position.newest = configuration(1, 2);
  CHECK(voter.answer(2s, better).verdict == VoteVerdict::granted);
}

TEST_CASE("Of those that store one configuration, one with the newest story is elected") {
  Voter voter;
  voter.follow(Term{1}, e(1));
  REQUIRE(voter.keeps(state(1, 1)));
  voter.has_story_of(AttemptNumber{7});
  voter.has_story_of(AttemptNumber{6});  // messages may be late
  voter.lost(1s, false);
  VoteRequest asks = request(2, 4);
  asks.attempt = AttemptNumber{6};
  CHECK(voter.answer(2s, asks).verdict == VoteVerdict::ahead);
  asks.attempt = AttemptNumber{7};
  CHECK(voter.answer(2s, asks).verdict == VoteVerdict::granted);
  asks = request(3, 4);  // the story of a later configuration's proposal is no older
  asks.log_position.newest = configuration(1, 2);
  asks.log_position.settled = configuration(1, 1);
  CHECK(voter.answer(3s, asks).verdict == VoteVerdict::granted);
}

TEST_CASE("A voter keeps no state of a coordinator that does not know what it has kept") {
  Voter voter;
  voter.follow(Term{2}, e(1));
  REQUIRE(voter.keeps(state(2, 1)));
  voter.lost(1s, false);
  voter.follow(Term{1}, e(4));
  CHECK_FALSE(voter.keeps(state(3, 1, e(4))));
  ReplicatedState knows = state(3, 1, e(4));
  knows.settled = configuration(2, 1);
  CHECK(voter.keeps(knows));
}

TEST_CASE("A candidate whose own voter gives its word to another begins again") {
  Election election(e(2), planned(), 0, kTimes, Term{1}, 0s);
  REQUIRE(election.time_passed(0s));
  CHECK(election.request().term == Term{2});
  election.on_vote(0s, e(2), granted(2, kBefore, kBefore));
  election.on_vote(0s, e(3), granted(2, kBefore, kBefore));
  election.outvoted(0s, Term{2});  // its own term is no other
  const auto before = election.state();
  election.outvoted(0s, Term{5});
  CHECK(election.state() == Election::State::waiting);
  CHECK(before != Election::State::waiting);
  REQUIRE(election.time_passed(10s));
  CHECK(election.request().term == Term{6});
  CHECK_FALSE(election.granted_by(e(3)));
}

TEST_CASE("A coordinator that is none any more has a vote") {
  Election election(e(2), planned({e(1), e(2), e(3)}), 0, kTimes, Term{1}, 0s);
  REQUIRE(election.time_passed(0s));
  election.on_vote(0s, e(2), granted(2, kPlanned, kPlanned));
  CHECK(election.state() == Election::State::asking);
  election.on_vote(0s, e(1), granted(2, kPlanned, kPlanned));
  CHECK(election.state() == Election::State::fencing);
}

TEST_CASE("A planned configuration decides alone, beside the one before, or not at all") {
  enum class Known : std::uint8_t { used, prepared, void_ };
  for (const Known known : {Known::used, Known::prepared, Known::void_}) {
    Election election(e(2), planned({e(1), e(2), e(4)}), 0, kTimes, Term{1}, 0s);
    REQUIRE(election.time_passed(0s));
    const ConfigurationNumber prepared = known == Known::void_ ? kBefore : kPlanned;
    const ConfigurationNumber assigned = known == Known::used ? kPlanned : kBefore;
    election.on_vote(0s, e(2), granted(2, prepared, assigned));
    election.on_vote(0s, e(3), granted(2, kBefore, kBefore));
    // A majority of the configuration before, and none of the planned one: enough where nobody of
    // the former has prepared, for then the planned one never was in use.
    CHECK((election.state() == Election::State::fencing) == (known == Known::void_));
    election.on_vote(0s, e(4), granted(2, prepared, assigned));
    (void)election.time_passed(10s);
    REQUIRE(election.state() == Election::State::leading);
    const ReplicatedState inherited = election.inheritance();
    CHECK(inherited.configuration.number == (known == Known::void_ ? kBefore : kPlanned));
    CHECK(inherited.configuration.voters.back() == (known == Known::void_ ? e(3) : e(4)));
    CHECK(inherited.before.empty() == (known != Known::prepared));
    CHECK(inherited.log_position().covers(kPlanned));
  }
}

TEST_CASE(
    "Who is told of a configuration that it does not know waits for others once, then goes on "
    "without") {
  Election election(e(2), planned({e(1), e(2), e(3)}), 0, kTimes, Term{1}, 0s);
  REQUIRE(election.time_passed(0s));
  Vote ahead;
  ahead.verdict = VoteVerdict::ahead;
  election.on_vote(0s, e(3), ahead);
  CHECK(election.state() == Election::State::deferring);
  const auto due = election.next_deadline();
  REQUIRE(due);
  CHECK(*due > kTimes.fence);
  (void)election.time_passed(*due);
  CHECK(election.state() == Election::State::waiting);
  REQUIRE(election.time_passed(*election.next_deadline()));
  election.on_vote(*due, e(3), ahead);
  CHECK(election.state() == Election::State::asking);
}

TEST_CASE(
    "Of several configurations that may be in use all decide that are neither void nor before one "
    "in "
    "use") {
  // Two coordinators died before they handed out a world: voter 1 led the first, 2 the second.
  ReplicatedState known = planned({e(3), e(4), e(5)});
  known.before.insert(known.before.begin(), Configuration{configuration(1, 2), {e(2), e(3), e(4)}});
  const auto lead = [&](ConfigurationNumber prepared, ConfigurationNumber assigned) {
    Election election(e(3), known, 0, kTimes, Term{1}, 0s);
    REQUIRE(election.time_passed(0s));
    for (const std::uint64_t voter : {1U, 2U, 3U, 4U}) {
      election.on_vote(0s, e(voter), granted(2, prepared, assigned));
    }
    (void)election.time_passed(10s);
    REQUIRE(election.state() == Election::State::leading);
    const ReplicatedState inherited = election.inheritance();
    std::vector<ConfigurationNumber> deciding;
    for (const Configuration* one : inherited.configurations()) {
      deciding.push_back(one->number);
    }
    CHECK(inherited.settled == kPlanned);
    return deciding;
  };
  using Configurations = std::vector<ConfigurationNumber>;
  CHECK(lead(kBefore, kBefore) == Configurations{kBefore});
  CHECK(lead(configuration(1, 2), kBefore) == Configurations{configuration(1, 2), kBefore});
  CHECK(lead(kPlanned, configuration(1, 2)) == Configurations{kPlanned, configuration(1, 2)});
  CHECK(lead(kPlanned, kPlanned) == Configurations{kPlanned});
  // Who has prepared for the newest may have prepared for the one before it, too.
  CHECK(lead(kPlanned, kBefore) == Configurations{kPlanned, configuration(1, 2), kBefore});
}
