#include "rendezvous/node/leader_lease.h"

#include <catch2/catch.hpp>

#include "rendezvous/node/follower_lease.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

constexpr LeaderLease::Age kTimeout = 3s;
constexpr Instant kBegin = 100s;

struct Told final : LeaderLease::Quorum {
  bool needs = true;
  bool will_need = true;
  bool is_at_rest = false;
  bool is_outdated = false;
  Instant contact_at = kBegin;
  mutable int looks = 0;

  [[nodiscard]] Need need() const override {
    return needs ? Need::now : will_need ? Need::later : is_at_rest ? Need::rests : Need::none;
  }
  [[nodiscard]] Instant contact(Instant) const override {
    ++looks;
    return contact_at;
  }
  [[nodiscard]] bool outdated() const override { return is_outdated; }
};

/// Lets time pass until the lease is lost, or `end` has come.
std::optional<Instant> lost_by(LeaderLease& lease, Instant end) {
  while (lease.due() && *lease.due() <= end) {
    const Instant at = *lease.due();
    if (lease.time_passed(at)) {
      return at;
    }
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("A contact that is nine tenths of the heartbeat timeout old ends the lease") {
  Told quorum;
  LeaderLease lease(kTimeout, quorum);
  lease.start(kBegin);
  CHECK(lost_by(lease, kBegin + 100s) == kBegin + lease_of(kTimeout));
  CHECK_FALSE(lease.due());  // once
}

TEST_CASE("A contact since the last look counts before the lease is given up") {
  Told quorum;
  quorum.contact_at = kNever;
  LeaderLease lease(kTimeout, quorum);
  lease.start(kBegin);
  REQUIRE(*lease.due() == kBegin);
  quorum.contact_at = kBegin;  // a service has joined at the same moment
  CHECK_FALSE(lease.time_passed(kBegin));
  CHECK(lost_by(lease, kBegin + 100s) == kBegin + lease_of(kTimeout));
}

TEST_CASE("A coordinator that needs nobody is woken no more often than every tenth timeout") {
  Told quorum;
  quorum.needs = quorum.will_need = false;
  quorum.is_at_rest = true;
  LeaderLease lease(kTimeout, quorum);
  lease.start(kBegin);
  CHECK(*lease.due() == kBegin + 10 * kTimeout);
  quorum.is_at_rest = false;
  lease.start(kBegin + 1s);
  CHECK(*lease.due() == kBegin + 1s + kTimeout);
}

TEST_CASE("A contact that is renewed keeps the lease") {
  Told quorum;
  LeaderLease lease(kTimeout, quorum);
  lease.start(kBegin);
  for (Instant at = kBegin; at < kBegin + 60s; at += 500ms) {
    quorum.contact_at = at;
    REQUIRE_FALSE(lost_by(lease, at + 499ms));
  }
}

TEST_CASE("Where nobody else is needed the lease does not end, and no age is told") {
  Told quorum;
  quorum.needs = quorum.will_need = false;
  quorum.contact_at = kNever;
  LeaderLease lease(kTimeout, quorum);
  lease.start(kBegin);
  CHECK_FALSE(lost_by(lease, kBegin + 100s));
  CHECK_FALSE(lease.age(kBegin));
  CHECK_FALSE(lease.advertised_age(kBegin));
  quorum.will_need = true;
  CHECK(lease.advertised_age(kBegin) == 0s);
}

TEST_CASE("The contact is looked at sixty times in a heartbeat timeout at most") {
  Told quorum;
  LeaderLease lease(kTimeout, quorum);
  for (Instant at = kBegin; at < kBegin + kTimeout; at += 1ms) {
    REQUIRE(lease.age(at) == at - kBegin);
  }
  CHECK(quorum.looks <= 60);
  quorum.contact_at = kBegin + kTimeout;
  CHECK(lease.age(kBegin + kTimeout + 50ms) == 50ms);
}

TEST_CASE("A coordinator without the newest configuration leads for a heartbeat timeout more") {
  Told quorum;
  quorum.needs = false;
  quorum.is_outdated = true;
  LeaderLease lease(kTimeout, quorum);
  lease.start(kBegin);
  const auto lost = lost_by(lease, kBegin + 100s);
  REQUIRE(lost);
  CHECK(*lost >= kBegin + kTimeout);
  CHECK(*lost <= kBegin + 2 * kTimeout + 1500ms);
}

TEST_CASE("No world is handed out on a contact that is too old") {
  Told quorum;
  quorum.needs = false;
  LeaderLease lease(kTimeout, quorum);
  lease.start(kBegin);
  quorum.needs = true;
  const Instant late = kBegin + lease_of(kTimeout);
  SECTION("it is too old") {
    CHECK(lease.restart(late));
    CHECK_FALSE(lease.due());
  }
  SECTION("it is young enough") {
    quorum.contact_at = late - 1s;
    CHECK_FALSE(lease.restart(late));
    CHECK(lost_by(lease, late + 100s) == late - 1s + lease_of(kTimeout));
  }
}

TEST_CASE("A lease that was never started loses nothing") {
  Told quorum;
  LeaderLease lease(kTimeout, quorum);
  CHECK_FALSE(lease.restart(kBegin + 100s));
  CHECK_FALSE(lease.time_passed(kBegin + 200s));
}
