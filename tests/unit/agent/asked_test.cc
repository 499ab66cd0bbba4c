#include "agent/asked.h"

#include <catch2/catch.hpp>
#include <csignal>

using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace ddprun::agent {
namespace {

constexpr Asked::Instant kNow{100s};

/// An agent whose coordinator gave that order, and was lost.
Asked lost_after(StopHow how, int signal) {
  Asked asked;
  asked.followed();
  asked.ordered(how, signal, "a signal was sent to the agent of node a");
  if (asked.lost(kNow, true)) {
    asked.stop(asked.order_signal());
  }
  return asked;
}

}  // namespace

TEST_CASE("A signal within half a second of the same one is the same wish") {
  Asked asked;
  CHECK(asked.is_new(SIGTERM, kNow));
  CHECK_FALSE(asked.is_new(SIGTERM, kNow + 499ms));
  CHECK(asked.is_new(SIGTERM, kNow + 500ms));  // from the first, not from the last
  CHECK(asked.is_new(SIGINT, kNow + 501ms));
}

TEST_CASE("The order to end the job is a wish of the agent once its coordinator is lost") {
  const bool stops = GENERATE(false, true);
  const Asked asked = stops ? lost_after(StopHow::now, SIGINT)  //
                            : lost_after(StopHow::preempt, SIGTERM);
  CHECK(asked.stop_by() == (stops ? SIGINT : SIGTERM));
  CHECK(asked.reason() == "a signal was sent to the agent of node a");
  CHECK_FALSE(asked.ends_at_once());  // others may not have the order: the next one is asked
  CHECK(asked.search_until(kNow + 1s, 3s) == kNow + 15s);
}

TEST_CASE("A job that goes on is no wish of its agents") {
  Asked asked;
  asked.followed();
  const int how = GENERATE(0, 1, 2, 3);
  if (how == 0) {
    asked.ordered(StopHow::now, 0, "a worker failed");
  } else if (how == 1) {
    asked.ordered(StopHow::save, 0, "node b joins");
  } else if (how == 2) {  // the last node was asked to leave
    asked.ordered(StopHow::preempt, SIGUSR2, "no other node is here");
  } else {
    asked.ordered(StopHow::preempt, SIGTERM, "SIGTERM was sent");
    asked.assigned();
  }
  CHECK_FALSE(asked.lost(kNow, true));
}

TEST_CASE("A scheduler's own warning, after the order to save, is no second one") {
  Asked asked = lost_after(StopHow::preempt, SIGUSR1);
  SECTION("a warning") {
    CHECK_FALSE(asked.is_new(SIGTERM, kNow + 1s));
    CHECK(asked.is_new(SIGTERM, kNow + 2s));
  }
  SECTION("a person") {
    CHECK(asked.is_new(SIGINT, kNow + 1s));
  }
}

TEST_CASE("An agent that had the wish itself takes a second signal as one") {
  Asked asked;
  CHECK(asked.is_new(SIGTERM, kNow));
  asked.stop(SIGTERM);
  asked.ordered(StopHow::preempt, SIGTERM, "SIGTERM was sent to the agent of node b");
  CHECK_FALSE(asked.lost(kNow, false));
  CHECK(asked.is_new(SIGTERM, kNow + 1s));
}

TEST_CASE("An agent that ends at once is to be started again after SIGUSR1 or its deadline") {
  Asked asked;
  asked.stop(SIGTERM);
  CHECK(asked.verdict_at_once() == Verdict::stopped);
  asked.stop(GENERATE(SIGUSR1, 0));
  CHECK(asked.verdict_at_once() == Verdict::preempted);
  asked.stop(SIGINT);
  CHECK(asked.verdict_at_once() == Verdict::stopped);
}

TEST_CASE("A person who stops an agent that searches wants that at once, and soon if it joins") {
  Asked asked;
  asked.stop(SIGINT);
  CHECK_FALSE(asked.ends_at_once());
  CHECK(asked.search_until(kNow, 30s) == kNow + 1s);
  asked.stop(SIGTERM);
  CHECK(asked.search_until(kNow, 30s) == kNow + 30s);
  CHECK_FALSE(asked.lost(kNow, true));
  CHECK_FALSE(asked.ends_at_once());
  asked.stop(SIGINT);
  CHECK(asked.ends_at_once());
}

}  // namespace ddprun::agent
