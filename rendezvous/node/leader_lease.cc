#include "rendezvous/node/leader_lease.h"

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/node/follower_lease.h"

namespace ddprun {
namespace {

/// Looks in a heartbeat timeout, for the age that agents receive. It is then wrong by a sixtieth of
/// their timeout at most, and ten thousand beats cost sixty walks over the voters.
constexpr int kLooks = 60;
/// Checks in a heartbeat timeout, at least, for this coordinator's own end.
constexpr int kChecks = 20;
/// Heartbeat timeouts between two checks where there is nothing to check. A timer that comes sooner
/// would wake an idle coordinator about as often as the beats of its only other node do.
constexpr int kRestTimeouts = 10;

}  // namespace

std::optional<LeaderLease::Age> LeaderLease::age(Instant now) {
  if (quorum_.need() != Quorum::Need::now) {
    return std::nullopt;
  }
  DDP_CHECK(now >= looked_at_, "time never goes back");
  if (now - looked_at_ > heartbeat_timeout_ / kLooks) {
    looked_at_ = now;
    contact_at_ = std::max(contact_at_, quorum_.contact(now));
  }
  DDP_CHECK(now >= contact_at_, "a contact lies in the past");
  return now - contact_at_;
}

std::optional<LeaderLease::Age> LeaderLease::advertised_age(Instant now) {
  const auto told = age(now);
  return quorum_.need() == Quorum::Need::later ? Age(0) : told;
}

void LeaderLease::start(Instant now) {
  DDP_CHECK(heartbeat_timeout_.count() > 0, "a lease has a length");
  const auto age_now = age(now);
  const Age left = lease_of(heartbeat_timeout_) - age_now.value_or(Age(0));
  // Two nodes and fewer never need one until restart(), or until this is started anew: an idle job
  // is left to sleep.
  const auto pause = [&]() -> Age {
    switch (quorum_.need()) {
      case Quorum::Need::now:
        return std::clamp(left, Age(0), heartbeat_timeout_ / kChecks);
      case Quorum::Need::later:
        return heartbeat_timeout_ / 2;
      case Quorum::Need::rests:
        return heartbeat_timeout_ * kRestTimeouts;
      case Quorum::Need::none:
        break;
    }
    return heartbeat_timeout_;
  };
  due_ = now + pause();
}

std::optional<std::string> LeaderLease::time_passed(Instant now) {
  if (!due_ || now < *due_) {
    return std::nullopt;
  }
  if (auto why = lost(now)) {
    return why;
  }
  if (outdated_for_long(now)) {
    stop();
    return "nodes know of a newer world, and there is no majority without them";
  }
  start(now);
  return std::nullopt;
}

/// Other voters decide from here on, so what is known of the old ones proves nothing. In Raft a
/// leader uses a new configuration as soon as it is in its log (Ongaro's dissertation,
/// section 4.1).
std::optional<std::string> LeaderLease::restart(Instant now) {
  looked_at_ = contact_at_ = kNever;
  if (!due_) {
    return std::nullopt;
  }
  auto why = lost(now);
  if (!why) {
    start(now);
  }
  return why;
}

/// A leader steps down when no quorum answered for so long (section 6.2). Nine tenths, as in an
/// agent's lease: its own workers have no heartbeat, and need the rest of the timeout to stop in.
std::optional<std::string> LeaderLease::lost(Instant now) {
  DDP_CHECK(due_, "a lease that nobody watches is not lost");
  auto age_now = age(now);
  if (age_now && *age_now >= lease_of(heartbeat_timeout_)) {
    looked_at_ = kNever;  // a voter may have come since the last look
    age_now = age(now);
  }
  if (!age_now || *age_now < lease_of(heartbeat_timeout_)) {
    return std::nullopt;
  }
  stop();
  return "it was not in touch with a majority of the nodes for " + seconds_text(*age_now);
}

/// Nodes without the newer configuration may be on their way, and make a quorum.
bool LeaderLease::outdated_for_long(Instant now) {
  if (!quorum_.outdated()) {
    outdated_since_.reset();
    return false;
  }
  outdated_since_ = outdated_since_.value_or(now);
  return now - *outdated_since_ >= heartbeat_timeout_;
}

}  // namespace ddprun
