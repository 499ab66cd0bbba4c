// What a consensus service could not be told of a job, since it was away: who leads next adds it.
#include <catch2/catch.hpp>
#include <memory>

#include "tests/unit/node/node_story.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

/// As it was kept before the service was gone.
message::VoterState kept_state() {
  message::VoterState state;
  state.replicated.term = Term{1};
  state.replicated.instance = kJob;
  state.replicated.attempt = AttemptNumber{3};
  state.replicated.configuration = {make_configuration(Term{1}, kLeader, 1), {kServiceVoter}};
  state.heartbeat_timeout = 3s;
  state.max_restarts = 4;
  state.so_far.restarts_used = 1;
  state.so_far.accounts.wall = 7s;
  state.nodes.resize(9);  // some of them are gone for long
  return state;
}

/// The world of a later attempt, as a node of it was told.
message::Assigned later_world() {
  message::Assigned assigned;
  assigned.term = Term{1};
  assigned.instance = kJob;
  assigned.world.attempt = AttemptNumber{5};
  assigned.world.restarts_used = 3;
  assigned.others = 2;
  assigned.job_age = 20s;
  return assigned;
}

TakeoverState taken_over(NodeStory& story, const message::VoterState& state) {
  story.step(Appointed{Term{2}, kJob, state, false});
  const auto* leads = story.find<BeginLeading>();
  REQUIRE(leads != nullptr);
  REQUIRE(leads->takeover);
  return leads->takeover->state;
}

}  // namespace

TEST_CASE("Who led until the service was gone, and leads again, goes on with all that it knew") {
  NodeStory story(true, true);
  story.step(Appointed{Term{1}, kJob, std::nullopt, false});
  story.step(ToldByLeader{later_world()});
  JobSummary so_far;
  so_far.restarts_used = 3;
  so_far.accounts.wall = 25s;
  so_far.incidents.resize(2);
  story.step(LeaderDeposed{"the service was gone for too long", nullptr,
                           std::make_shared<JobSummary>(so_far)});
  story.step(WorkersGone{});
  story.wait(4s);
  message::VoterState state = kept_state();
  SECTION("if nobody has led since") {
    const TakeoverState taken = taken_over(story, state);
    CHECK(taken.so_far == so_far);
    CHECK(taken.told_ago == 4s);
    CHECK(taken.known.attempt == AttemptNumber{5});
    CHECK(taken.expected == 3);
  }
  SECTION("but not if another one began an attempt since") {
    state.replicated.attempt = AttemptNumber{8};
    state.so_far.restarts_used = 4;
    const TakeoverState taken = taken_over(story, state);
    CHECK(taken.so_far == state.so_far);
    CHECK(taken.known.attempt == AttemptNumber{8});
    CHECK(taken.expected == 9);
  }
}

TEST_CASE("A node of the world knows its attempt, the restarts that were used, and its size") {
  NodeStory story(true, true);
  story.follow(Term{1});
  story.step(ToldByLeader{later_world()});
  story.lose(true);
  story.step(WorkersGone{});
  const TakeoverState taken = taken_over(story, kept_state());
  CHECK(taken.so_far.restarts_used == 3);
  CHECK(taken.so_far.attempts == 2);
  REQUIRE(taken.so_far.incidents.size() == 2);
  for (const std::uint32_t at : {0U, 1U}) {
    const Incident& untold = taken.so_far.incidents[at];
    CHECK(untold.spent_restart);
    CHECK(untold.attempt == AttemptNumber{3 + at});
    CHECK(untold.next_attempt == AttemptNumber{4 + at});
    CHECK(untold.reason.starts_with("a worker failed while the service"));
  }
  CHECK(taken.known.attempt == AttemptNumber{5});
  // Of that attempt on: one for each term, and those that the restarts that are left allow.
  CHECK(taken.first_attempt == AttemptNumber{5 + 2 + 3});
  CHECK(taken.expected == 2);
  CHECK(taken.why == "it is gone");
}

TEST_CASE("A node that has just started adds nothing") {
  NodeStory story(true, true);
  const message::VoterState state = kept_state();
  const TakeoverState taken = taken_over(story, state);
  CHECK(taken.so_far == state.so_far);
  CHECK(taken.expected == 8);
  CHECK(taken.why == "no agent that was in it is left");
}
