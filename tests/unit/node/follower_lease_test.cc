#include "rendezvous/node/follower_lease.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;
using Step = FollowerLease::Step;

namespace {

constexpr FollowerLease::Duration kTimeout = 3s;
constexpr Instant kBegin = 100s;

FollowerLease begun() {
  FollowerLease lease(kTimeout, kBegin);
  lease.begin(kBegin, kBegin);
  return lease;
}

/// The time until the lease is over, where nothing comes any more.
Instant end_of(FollowerLease lease) {
  while (true) {
    const Instant at = *lease.due();
    if (lease.time_passed(at, false) == Step::lost) {
      return at;
    }
  }
}

}  // namespace

TEST_CASE("The first beat is due at once, and then one in two fifths of the heartbeat timeout") {
  FollowerLease lease = begun();
  CHECK(lease.due() == kBegin);
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  CHECK(lease.due() == kBegin + kTimeout * 2 / 5);
  CHECK(lease.time_passed(kBegin + 1s, false) == Step::wait);
  CHECK(lease.time_passed(kBegin + kTimeout * 2 / 5, false) == Step::beat);
}

TEST_CASE("The lease counts from the sending of the beat that was answered") {
  FollowerLease lease = begun();
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  CHECK_FALSE(lease.answered(kBegin + 1s, {kTimeout, 5s, {}}));
  CHECK(end_of(lease) == kBegin + lease_of(kTimeout));
  CHECK(lease.newest_stamp() == 5s);
  CHECK(lease.stamp_came_at() == kBegin + 1s);
  CHECK(lease.time_passed(kBegin + 1500ms, false) == Step::beat);
  CHECK_FALSE(lease.answered(kBegin + 2s, {kTimeout, 6s, {}}));
  CHECK(end_of(lease) == kBegin + 1500ms + lease_of(kTimeout));
}

TEST_CASE(
    "A lease that is lost by the age of the quorum's contact is no silence of the coordinator") {
  FollowerLease answered = begun();
  CHECK(answered.time_passed(kBegin, false) == Step::beat);
  CHECK(answered.answered(kBegin + 10ms, {kTimeout, 5s, 0ms}));
  const FollowerLease silent = answered;
  CHECK(end_of(silent) == kBegin + lease_of(kTimeout));
  CHECK_FALSE(silent.is_answered(end_of(silent)));

  Instant now = *answered.due();
  while (answered.time_passed(now, false) == Step::beat) {
    CHECK(answered.answered(now, {kTimeout, 5s, now - kBegin}));  // older with each answer
    now = *answered.due();
  }
  CHECK(now == kBegin + lease_of(kTimeout));
  CHECK(answered.is_answered(now));
}

TEST_CASE("Answers belong to beats in their order, and one without a beat proves nothing") {
  FollowerLease lease = begun();
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  CHECK(lease.time_passed(kBegin + 1500ms, false) == Step::beat);
  CHECK_FALSE(lease.answered(kBegin + 1600ms, {kTimeout, 1s, {}}));
  CHECK(end_of(lease) == kBegin + lease_of(kTimeout));
  CHECK_FALSE(lease.answered(kBegin + 1700ms, {kTimeout, 2s, {}}));
  CHECK_FALSE(lease.answered(kBegin + 1800ms, {kTimeout, 3s, {}}));
  CHECK(end_of(lease) == kBegin + 1500ms + lease_of(kTimeout));
}

TEST_CASE("Where the coordinator needs a quorum the lease counts from its contact with one") {
  FollowerLease lease = begun();
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  CHECK(lease.answered(kBegin, {kTimeout, 5s, 400ms}));
  CHECK(lease.due() == kBegin + kTimeout / 6);  // and beats come more often
  CHECK(lease.time_passed(kBegin + 500ms, false) == Step::beat);
  CHECK(
      lease.answered(kBegin + 500ms, {kTimeout, 6s, 600ms}));  // an older contact than the first's
  CHECK(end_of(lease) == kBegin + lease_of(kTimeout));
  CHECK(lease.time_passed(kBegin + 1s, false) == Step::beat);
  CHECK(lease.answered(kBegin + 1s, {kTimeout, 7s, 400ms}));
  CHECK(end_of(lease) == kBegin + 600ms + lease_of(kTimeout));
}

TEST_CASE("An agent whose lease is short asks twenty times in a heartbeat timeout") {
  FollowerLease lease = begun();
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  CHECK(lease.answered(kBegin, {kTimeout, 5s, 0s}));
  Instant at = kBegin;
  while (at < kBegin + kTimeout / 2) {  // no answer comes
    at = *lease.due();
    REQUIRE(lease.time_passed(at, false) == Step::beat);
  }
  CHECK(lease.due() == at + kTimeout / 20);
  CHECK(lease.answered(at, {kTimeout, 6s, kTimeout / 2}));  // of an old contact
  CHECK(lease.due() == at + kTimeout / 20);
  CHECK(lease.time_passed(at + kTimeout / 20, false) == Step::beat);
}

TEST_CASE("An answer that was asked for before counts from the asking") {
  FollowerLease lease(kTimeout, kBegin);
  lease.begin(kBegin, kBegin - 1s);
  CHECK(end_of(lease) == kBegin - 1s + lease_of(kTimeout));
}

TEST_CASE("The shorter of both timeouts holds") {
  FollowerLease lease = begun();
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  CHECK_FALSE(lease.answered(kBegin, {1s, 5s, {}}));
  CHECK(lease.due() == kBegin + 400ms);
  CHECK(end_of(lease) == kBegin + lease_of(1s));
}

TEST_CASE("Unread bytes are read before the coordinator is given up, and once") {
  FollowerLease lease = begun();
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  const Instant late = kBegin + kTimeout;  // this process stood still
  CHECK(lease.time_passed(late, true) == Step::look_again);
  CHECK(*lease.due() <= late);
  SECTION("they were no answer") {
    CHECK(lease.time_passed(late, true) == Step::lost);
  }
  SECTION("the answer among them is too old") {
    CHECK_FALSE(lease.answered(late, {kTimeout, 5s, {}}));
    CHECK(lease.time_passed(late, false) == Step::lost);
  }
}

TEST_CASE("Without a heartbeat timeout nothing is due, and stamps are kept") {
  FollowerLease lease(0s, kBegin);
  lease.begin(kBegin, kBegin);
  lease.take_stamp(kBegin + 1s, 7s);
  lease.take_stamp(kBegin + 2s, 6s);
  CHECK_FALSE(lease.due());
  CHECK(lease.time_passed(kBegin + 1000s, false) == Step::wait);
  CHECK(lease.newest_stamp() == 7s);
  CHECK(lease.stamp_came_at() == kBegin + 1s);
}

TEST_CASE("A lease that is nearly over when a world is handed out is renewed at once") {
  FollowerLease lease = begun();
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  CHECK(lease.answered(kBegin, {kTimeout, 5s, 0ms}));
  CHECK(lease.time_passed(kBegin + 2450ms, false) == Step::beat);
  CHECK(lease.answered(kBegin + 2550ms, {kTimeout, 6s, 2450ms}));  // the coordinator stood still
  CHECK(*lease.due() > kBegin + 2550ms);
  lease.world_begins(kBegin + 2560ms);
  CHECK(*lease.due() == kBegin + 2560ms);
  CHECK(lease.time_passed(kBegin + 2560ms, false) == Step::beat);
  CHECK(lease.answered(kBegin + 2561ms, {kTimeout, 7s, 5ms}));
  CHECK(end_of(lease) == kBegin + 2555ms + lease_of(kTimeout));
  lease.world_begins(kBegin + 2600ms);
  CHECK(*lease.due() > kBegin + 2600ms);  // one with time left is in no hurry
}

TEST_CASE("A quorum that is needed soon brings the next beat forward") {
  FollowerLease lease = begun();
  CHECK(lease.time_passed(kBegin, false) == Step::beat);
  lease.quorum_needed_soon(kBegin + 100ms);
  CHECK(lease.due() == kBegin + 100ms + kTimeout / 6);
}
