// What a node does at the job's first endpoint, on its machine, while there is no coordinator.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/node/node_story.h"

using namespace ddprun;

TEST_CASE(
    "A spare without a coordinator begins at the endpoint as a new agent does, after a while") {
  NodeStory story;
  story.follow(Term{1});
  story.step(ToldByLeader{message::TellWorld{AttemptNumber{0}, {}, Term{1}, kJob}});
  const bool votes = GENERATE(false, true);
  if (votes) {
    story.be_standby();
  }
  story.lose(true);
  story.step(WorkersGone{});
  const Instant lost_at = story.now;
  REQUIRE(story.find<SearchLeader>() != nullptr);
  CHECK(story.find<SearchLeader>()->is_host == false);
  while (story.node().next_deadline() && story.now < lost_at + 6s) {
    story.now = std::max(story.now, *story.node().next_deadline());
    story.step(NodeTimePassed{});
  }
  if (votes) {
    CHECK(story.find<SearchLeader>() == nullptr);  // it stands for election
    return;
  }
  CHECK(story.now == lost_at + 6s);
  REQUIRE(story.find<SearchLeader>() != nullptr);
  CHECK(story.find<SearchLeader>()->is_host == std::nullopt);  // where this is its host
  CHECK(story.find<SearchLeader>()->places.front().host == "10.0.0.1");
  story.step(EndpointBound{29400, JobInstance{43}});
  CHECK(story.find<BeginLeading>() != nullptr);
  CHECK(story.node().description().past->instance == kJob);  // which begins as nothing new
}

TEST_CASE("A node on the endpoint's machine listens there once it lost its coordinator") {
  NodeStory story;
  story.follow(Term{1});
  story.lose(true);
  CHECK(story.find<ListenAtFirstEndpoint>() == nullptr);
  story.step(WorkersGone{});
  CHECK(story.find<ListenAtFirstEndpoint>() != nullptr);
  const auto asked = [&](bool from_here, bool may_begin) {
    NodeDescription node;
    node.past.emplace();
    if (!may_begin) {
      node.past->group_rank = 0;
    }
    story.step(AskedByPeer{message::Hello{node}, from_here});
    REQUIRE(story.find<AnswerPeer>() != nullptr);
    return story.find<LeaveFirstEndpoint>() != nullptr;
  };
  // It knows of no coordinator, and one without a vote may be needed there.
  CHECK(asked(true, true));
  CHECK_FALSE(asked(true, false));
  CHECK_FALSE(asked(false, true));
  story.step(CalledByLeader{call_of(Term{2})});
  story.follow(Term{2});
  CHECK_FALSE(asked(true, true));
  CHECK(std::get<message::Moved>(story.find<AnswerPeer>()->answer).port == 29400);
}
