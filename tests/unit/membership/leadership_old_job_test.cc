#include <catch2/catch.hpp>

#include "rendezvous/membership/leadership.h"
#include "tests/unit/membership/leading_job.h"

using namespace ddprun;

namespace {

/// A job whose coordinator was voter 99, and its other voters from 2 on. They come to one that
/// begins without any state, on node 1.
class BegunAnew {
 public:
  explicit BegunAnew(int voters, bool saw_close = false, bool at_endpoint = true)
      : leadership_(Term{1}, e(1), {}, AttemptNumber{0}) {
    copy_.replicated.term = Term{2};
    copy_.replicated.coordinator = VoterId{99};
    copy_.replicated.attempt = AttemptNumber{4};
    copy_.replicated.configuration.number = configuration(2, 1);
    copy_.replicated.configuration.voters = {VoterId{99}};
    for (std::uint64_t i = 2; i <= static_cast<std::uint64_t>(voters); ++i) {
      copy_.replicated.configuration.voters.push_back(e(i));
    }
    copy_.saw_close = saw_close;
    copy_.at_endpoint = at_endpoint;
    past_ = {Term{2}, AttemptNumber{4}, configuration(2, 1), 1, voters - 1, at_endpoint};
    past_.saw_close = saw_close;
    leadership_.joined(n(1), e(1), {}, std::nullopt);
  }
  /// A voter of it. It followed the old coordinator, and promised nothing since.
  void voter(std::uint64_t id, NodeId node) { voter(id, node, {Term{2}, VoterId{99}, {}}); }
  void voter(std::uint64_t id, NodeId node, Promise promise) {
    promise.configuration = configuration(2, 1);
    leadership_.joined(node, e(id), promise, past_, copy_);
  }
  /// The old coordinator itself: it stepped down.
  void coordinator(NodeId node, std::vector<VoterId> granted = {}) {
    leadership_.joined(node, VoterId{99},
                       {Term{2}, VoterId{99}, configuration(2, 1), std::move(granted)}, past_,
                       copy_);
  }
  /// A node of its world that has no copy.
  void learner(std::uint64_t id, NodeId node) {
    leadership_.joined(node, e(id), {Term{2}, VoterId{99}, configuration(2, 1)}, past_);
  }
  Leadership& job() { return leadership_; }

 private:
  Leadership leadership_;
  StateCopy copy_;
  Past past_;
};

}  // namespace

TEST_CASE("One that begins without any state leads on where enough of the old voters are here") {
  SECTION("more than half") {
    BegunAnew old(5, false, false);
    old.voter(2, n(2));
    old.voter(3, n(3));
    CHECK_FALSE(old.job().quorum_follows());
    CHECK(old.job().quorum_text() ==
          "2 of the 5 nodes that decide for the job are here, 3 are needed");
    old.voter(4, n(4));
    CHECK(old.job().quorum_follows());
    CHECK(old.job().in_use().term == Term{3});
  }
  SECTION("half, where the old coordinator is no more") {
    const bool is_gone = GENERATE(false, true);
    BegunAnew old(4, false, is_gone);
    old.voter(2, n(2));
    CHECK_FALSE(old.job().quorum_follows());
    old.voter(3, n(3));
    CHECK(old.job().quorum_follows() == is_gone);
  }
  SECTION("all others, though they may have voted for each other") {
    BegunAnew old(2, true);
    old.voter(2, n(2), promised(5, e(2), {}));
    CHECK(old.job().quorum_follows());
  }
}

TEST_CASE(
    "Half leads on where the old coordinator is in it: it follows, and the rest elects nobody") {
  BegunAnew old(4, false, false);
  old.voter(2, n(2));
  SECTION("and voted for nobody else") {
    old.coordinator(n(99));
    CHECK(old.job().quorum_follows());
    old.job().left(n(99), false);
    CHECK_FALSE(old.job().quorum_follows());
    CHECK(old.job().quorum_text() ==
          "1 of the 4 nodes that decide for the job are here, 3 are needed");
  }
  SECTION("but not after a vote for one that may lead") {
    old.coordinator(n(99), {e(4)});
    CHECK_FALSE(old.job().quorum_follows());
    CHECK(old.job().quorum_text() ==
          "2 of the 4 nodes that decide for the job are here, 3 are needed");
  }
  SECTION("nor with less than half") {
    old.job().left(n(2), false);
    old.coordinator(n(99));
    CHECK_FALSE(old.job().quorum_follows());
  }
}

TEST_CASE("A dead coordinator's vote counts for nobody: two halves would count it twice") {
  BegunAnew old(3, true);
  old.voter(2, n(2));
  CHECK_FALSE(old.job().quorum_follows());
  CHECK(old.job().quorum_text() ==
        "1 of the 3 nodes that decide for the job are here, 2 are needed");
}

TEST_CASE("One that begins without any state waits where nobody knows who decides") {
  BegunAnew old(3);
  old.learner(9, n(9));
  CHECK_FALSE(old.job().quorum_follows());
  CHECK(old.job().quorum_text() == "none of the nodes that decide for the job is here");
  CHECK_FALSE(old.job().outdated());  // it waits, and gives way to a leader that calls
  old.voter(2, n(2));
  old.voter(3, n(3));
  CHECK(old.job().quorum_follows());
}

TEST_CASE("Somebody of the old voters has to be here: else nobody would remember") {
  BegunAnew old(2, true);
  old.voter(2, n(2));
  CHECK(old.job().quorum_follows());
  old.job().left(n(2), true);
  CHECK_FALSE(old.job().quorum_follows());
}

TEST_CASE("Numbers that a coordinator may have used, which nobody saw die, are left out") {
  const bool saw_close = GENERATE(false, true);
  BegunAnew old(2, saw_close);
  old.voter(2, n(2));
  const std::uint32_t known = 6;  // one may have been handed out, and one by a successor
  CHECK(number(old.job().next_attempt()) == (saw_close ? known : known + kUnknownMax));
  const auto plan = old.job().plan({n(1), n(2)}, {});
  REQUIRE(plan);
  CHECK(number(plan->replicated.term) == (saw_close ? 3 : 3 + kUnknownMax));
}

TEST_CASE("An old coordinator may have gone on with the voters that are not here") {
  const std::uint32_t known = 6;
  BegunAnew half(4, false);  // by its own vote and that of one that it knew to be dead
  half.voter(2, n(2));
  half.voter(3, n(3));
  CHECK(number(half.job().next_attempt()) == known + kUnknownMax);
  BegunAnew more(5, false);
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    more.voter(id, n(id));
  }
  more.learner(5, n(5));
  CHECK(number(more.job().next_attempt()) == known);
}

TEST_CASE("The old world is here when all of its nodes are, or are dead") {
  BegunAnew old(5, true);
  for (const std::uint64_t id : {2U, 3U, 4U}) {
    old.voter(id, n(id));
  }
  old.voter(4, n(14));  // twice
  CHECK_FALSE(old.job().past_is_here());
  old.learner(5, n(5));
  CHECK(old.job().past_is_here());
  old.job().left(n(5));
  CHECK_FALSE(old.job().past_is_here());
  old.learner(5, n(15));
  old.job().left(n(15), true);
  CHECK(old.job().past_is_here());  // its agent is dead, and so are its workers
}

TEST_CASE("A newer copy replaces an older one, and the plan after it names it") {
  BegunAnew old(3);
  old.voter(2, n(2));
  old.voter(3, n(3));
  REQUIRE(old.job().quorum_follows());
  StateCopy newer;
  newer.replicated.term = Term{4};
  newer.replicated.coordinator = VoterId{98};
  newer.replicated.configuration = {configuration(4, 1), {VoterId{98}, e(7), e(8)}};
  newer.replicated.before = {{configuration(2, 1), {VoterId{99}, e(2), e(3)}}};
  const Promise promise{Term{4}, VoterId{98}, configuration(4, 1)};
  old.job().joined(n(7), e(7), promise, std::nullopt, newer);
  CHECK_FALSE(old.job().quorum_follows());
  old.job().joined(n(8), e(8), promise, std::nullopt, newer);
  CHECK(old.job().quorum_follows());
  CHECK(old.job().in_use().term == Term{5});
  const auto plan = old.job().plan({n(1), n(7), n(8)}, {});
  REQUIRE(plan);
  CHECK(plan->replicated.before.size() == 2);
  CHECK(plan->replicated.before.front() == newer.replicated.configuration);
  CHECK(plan->voters.size() == 5);
}

TEST_CASE("One that begins without any state keeps the voters that its plan was sent to") {
  BegunAnew old(4, true);
  old.voter(2, n(2), promised(3, e(4), {}));
  old.voter(3, n(3), promised(3, e(4), {}));
  old.voter(4, n(4));
  REQUIRE(old.job().quorum_follows());
  CHECK(old.job().stands_for() == Term{2});  // nobody has promised it more
  REQUIRE(old.job().plan({n(1), n(2), n(3), n(4)}, {}));
  old.job().left(n(4));  // the votes of the others have reached it
  CHECK_FALSE(old.job().quorum_follows());
  SECTION("for no other leads without them") {
    CHECK(old.job().stands_for() == Term{4});
  }
  SECTION("but not with fewer, for the rest may lead") {
    old.job().left(n(3));
    CHECK(old.job().stands_for() == Term{2});
  }
}

TEST_CASE("One that begins without any state keeps nobody while the old coordinator may live") {
  BegunAnew old(4, false, false);
  old.voter(2, n(2));
  old.voter(3, n(3));
  old.voter(4, n(4));
  REQUIRE(old.job().plan({n(1), n(2), n(3), n(4)}, {}));
  old.job().left(n(4));
  CHECK(old.job().stands_for() == Term{2});
}
