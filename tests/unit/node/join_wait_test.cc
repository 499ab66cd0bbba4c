#include "rendezvous/node/join_wait.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("Coordinators that are lost before they begin a world begin no new wait") {
  JoinWait wait(60s, true);
  wait.begin(100s);
  CHECK(wait.ends_at() == 160s);
  for (Instant at = 110s; at < 150s; at += 15s) {
    wait.met(at);
    wait.lost(at + 14s, std::nullopt);
    CHECK(wait.lost_at() == at + 14s);
  }
  CHECK(wait.ends_at() == 160s);
  CHECK(wait.left(150s) == 10s);
  CHECK(wait.left(170s) == 1ms);
}

TEST_CASE("After a world a node waits anew") {
  JoinWait wait(60s, true);
  wait.begin(100s);
  wait.met(101s);
  SECTION("of which it was a member") {
    wait.lost(110s, AttemptNumber{0});
    CHECK(wait.since() == 110s);
    wait.met(111s);
    wait.lost(120s, AttemptNumber{0});  // nothing new
    CHECK(wait.since() == 110s);
    wait.met(121s);
    wait.lost(130s, AttemptNumber{3});
    CHECK(wait.since() == 130s);
  }
  SECTION("that did not need it") {
    wait.is_spare();
    wait.lost(110s, std::nullopt);
    CHECK(wait.since() == 110s);
    wait.met(111s);
    wait.lost(120s, std::nullopt);
    CHECK(wait.since() == 110s);
  }
  SECTION("or under one that has gathered for as long as the join timeout") {
    wait.lost(161s, std::nullopt);
    CHECK(wait.since() == 161s);
  }
}

TEST_CASE("Where nodes vote each loss begins a new wait") {
  JoinWait wait(60s, false);
  wait.begin(100s);
  wait.met(101s);
  wait.lost(110s, std::nullopt);
  CHECK(wait.since() == 110s);
}
