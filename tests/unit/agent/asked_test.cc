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
  CHECK(asked.hear(SIGTERM, kNow) == Event::asked);
  CHECK_FALSE(asked.hear(SIGTERM, kNow + 499ms));
  CHECK(asked.hear(SIGTERM, kNow + 500ms) == Event::asked);  // from the first, not from the last
  CHECK(asked.hear(SIGINT, kNow + 501ms) == Event::asked);
  CHECK_FALSE(asked.hear(SIGTERM, kNow + 502ms));  // whatever else came between
}

TEST_CASE("Signals of two kinds at once are one wish, the wider one") {
  const auto [first, second, widens] = GENERATE(table<int, int, bool>({{SIGTERM, SIGHUP, true},
                                                                       {SIGTERM, SIGUSR1, true},
                                                                       {SIGUSR1, SIGINT, true},
                                                                       {SIGHUP, SIGTERM, false},
                                                                       {SIGINT, SIGQUIT, false},
                                                                       {SIGUSR1, SIGTERM, false},
                                                                       {SIGTERM, SIGUSR2, false}}));
  CAPTURE(first, second);
  Asked asked;
  REQUIRE(asked.hear(first, kNow) == Event::asked);
  asked.stop(first);
  const auto heard = asked.hear(second, kNow + 499ms);
  CHECK(heard == (widens ? std::optional(Event::asked_too) : std::nullopt));
  if (heard) {
    asked.stop(second);
  }
  const bool is_now = first == SIGHUP || first == SIGINT || second == SIGHUP || second == SIGINT;
  CHECK(asked.wish().verdict == (is_now ? Verdict::stopped : Verdict::preempted));
  // Of the second kind, too, one that comes again is the same.
  CHECK_FALSE(asked.hear(second, kNow + 600ms));
  CHECK(asked.hear(first, kNow + 600ms) == Event::asked);
}

TEST_CASE("A signal for the whole job right after the order to leave is a wish of its own") {
  Asked asked;
  CHECK(asked.hear(SIGUSR2, kNow) == Event::leave_asked);
  CHECK(asked.hear(SIGTERM, kNow + 1ms) == Event::asked);
}

TEST_CASE("By ddpctl only a second stop asks for more than the first") {
  Asked asked;
  Asked::Instant now = kNow;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM}) {
    CHECK_FALSE(asked.repeats(signal));
    CHECK(asked.hear(signal, now += 1s));
    CHECK(asked.repeats(signal) == (signal != SIGTERM));
  }
  Asked saves;
  saves.stop(SIGUSR1);
  CHECK(saves.repeats(SIGUSR2));  // the node leaves with all others
}

TEST_CASE("A node that is asked to leave again is to go now") {
  Asked asked;
  CHECK(asked.hear(SIGUSR2, kNow) == Event::leave_asked);
  asked.leave(SIGUSR2);
  CHECK_FALSE(asked.hear(SIGUSR2, kNow + 499ms));
  CHECK(asked.hear(SIGUSR2, kNow + 500ms) == Event::leave_again);
  CHECK(asked.hear(SIGTERM, kNow + 501ms) == Event::asked);
}

TEST_CASE("A node that is to go now says so to a job that ends, and not to one that goes on") {
  Asked asked;
  asked.stop(SIGUSR2);
  CHECK_FALSE(asked.is_of_job());
  CHECK(asked.stop_by() == SIGUSR2);
  CHECK(asked.verdict_at_once() == Verdict::stopped);
  asked.ordered(StopHow::preempt, SIGUSR1, "SIGUSR1 was sent to the agent of node b");
  CHECK(asked.is_of_job());
  CHECK(asked.verdict_at_once() == Verdict::preempted);  // as all others end
  asked.assigned();
  CHECK_FALSE(asked.is_of_job());
  asked.stop(SIGTERM);
  asked.stop(SIGUSR2);
  CHECK(asked.is_of_job());
  CHECK(asked.stop_by() == SIGTERM);
}

TEST_CASE("The only node, asked to leave twice, ends now a job that is to go on another time") {
  Asked asked;
  asked.leave(SIGUSR2);
  asked.ordered(StopHow::preempt, SIGUSR2, "node a was asked to leave, and no other was here");
  asked.stop(SIGUSR2);
  CHECK(asked.verdict_at_once() == Verdict::preempted);
  if (GENERATE(false, true)) {
    asked.assigned();
  } else {
    asked.stop(SIGINT);
  }
  CHECK(asked.verdict_at_once() == Verdict::stopped);
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
    CHECK_FALSE(asked.hear(GENERATE(SIGTERM, SIGUSR2), kNow + 1s));
    CHECK(asked.hear(SIGTERM, kNow + 2s) == Event::asked);
  }
  SECTION("a person") {
    CHECK(asked.hear(SIGINT, kNow + 1s) == Event::asked);
  }
}

TEST_CASE("A notice that the machine goes is a wish, and the first warning after it is the same") {
  Asked asked;
  CHECK(asked.noticed("aws: terminate of the spot instance", NoticeResponse::save) ==
        Event::deadline_came);
  asked.stop(0);
  CHECK(asked.wish().verdict == Verdict::preempted);
  CHECK(asked.reason() ==
        "this node has a preemption notice (aws: terminate of the spot instance)");
  CHECK(asked.notice() == "aws: terminate of the spot instance");
  if (GENERATE(false, true)) {
    CHECK_FALSE(asked.lost(kNow, false));
  }
  SECTION("a warning") {
    CHECK_FALSE(asked.hear(SIGTERM, kNow + 1s));
    CHECK(asked.hear(SIGTERM, kNow + 2s) == Event::asked);
  }
  SECTION("a person") {
    CHECK(asked.hear(SIGINT, kNow + 1s) == Event::asked);
  }
}

TEST_CASE("What a person wants after a notice is the reason, and the notice none any more") {
  Asked asked;
  CHECK(asked.noticed("aws: terminate of the spot instance", NoticeResponse::save));
  asked.stop(0);
  asked.stop(SIGINT);
  CHECK(asked.reason() == "SIGINT was sent to this agent");
  CHECK(asked.notice().empty());
}

TEST_CASE("A node that leaves by a notice hears the first warning after it as the same wish") {
  const int signal = GENERATE(SIGTERM, SIGUSR1, SIGUSR2);
  const bool was_leaving = GENERATE(false, true);
  Asked asked;
  if (was_leaving) {
    asked.leave(SIGUSR2);
  }
  const auto event = asked.noticed("file n", NoticeResponse::leave);
  CHECK(event == (was_leaving ? std::nullopt : std::optional(Event::leave_asked)));
  asked.leave(SIGUSR2);
  CHECK(asked.notice().empty());  // the job goes on: it has no notice
  SECTION("and the second one as ever") {
    CHECK_FALSE(asked.hear(signal, kNow));
    CHECK(asked.hear(signal, kNow + 1s) == (signal == SIGUSR2 ? Event::leave_again : Event::asked));
  }
  SECTION("but as one for the whole job where it leads the job") {
    const auto heard = asked.hear(signal, kNow, true);
    CHECK(heard == (signal == SIGUSR2 ? std::nullopt : std::optional(Event::asked)));
  }
  SECTION("but a person's as ever") {
    CHECK(asked.hear(SIGINT, kNow) == Event::asked);
  }
}

TEST_CASE("A deadline is no notice: a warning after it is a second one") {
  Asked asked;
  CHECK(asked.noticed({}, GENERATE(NoticeResponse::save, NoticeResponse::leave)) ==
        Event::deadline_came);
  asked.stop(0);
  CHECK(asked.reason() == "its deadline has come");
  CHECK(asked.hear(SIGTERM, kNow) == Event::asked);
}

TEST_CASE("An agent that had the wish itself takes a second signal as one") {
  Asked asked;
  CHECK(asked.hear(SIGTERM, kNow));
  asked.stop(SIGTERM);
  asked.ordered(StopHow::preempt, SIGTERM, "SIGTERM was sent to the agent of node b");
  CHECK_FALSE(asked.lost(kNow, false));
  CHECK(asked.hear(SIGTERM, kNow + 1s));
}

TEST_CASE("An order to end now outlasts its coordinator, by whatever signal it was asked") {
  // A second SIGTERM elsewhere: all others are to end with the code of that agent.
  Asked asked = lost_after(StopHow::now, SIGTERM);
  CHECK(asked.wish().wish == StopWish::end);
  CHECK(asked.wish().verdict == Verdict::stopped);
  CHECK_FALSE(asked.ends_at_once());
  CHECK(asked.hear(SIGTERM, kNow + 1s) == Event::asked);
}

TEST_CASE("An agent that ends at once is to be started again after SIGUSR1 or its deadline") {
  Asked asked;
  asked.stop(SIGTERM);
  CHECK(asked.verdict_at_once() == Verdict::preempted);  // no worker ran that could not save
  asked.interrupts();
  CHECK(asked.verdict_at_once() == Verdict::stopped);
  asked.stop(GENERATE(SIGUSR1, 0));
  CHECK(asked.verdict_at_once() == Verdict::preempted);
  asked.stop(SIGUSR2);
  CHECK(asked.verdict_at_once() == Verdict::preempted);
  SECTION("unless a person stopped it") {
    asked.stop(SIGINT);
    asked.stop(SIGUSR1);
  }
  SECTION("unless the job ends without a save") {
    asked.ordered(StopHow::now, SIGINT, "SIGINT was sent to the agent of node b");
  }
  CHECK(asked.verdict_at_once() == Verdict::stopped);
}

TEST_CASE("A person who stops an agent that searches wants that at once, and soon if it joins") {
  Asked warned;
  warned.stop(SIGTERM);
  CHECK(warned.search_until(kNow, 30s) == kNow + 30s);
  CHECK_FALSE(warned.lost(kNow, true));
  CHECK_FALSE(warned.ends_at_once());
  Asked asked;
  asked.stop(SIGINT);
  CHECK_FALSE(asked.ends_at_once());
  CHECK(asked.search_until(kNow, 30s) == kNow + 1s);
  CHECK_FALSE(asked.lost(kNow, true));
  CHECK(asked.ends_at_once());
}

}  // namespace ddprun::agent
