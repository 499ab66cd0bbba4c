#include "rendezvous/node/follower_lease.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// A timeout of a few milliseconds must not become a timer that never rests.
constexpr FollowerLease::Duration kBeatIntervalMin = std::chrono::milliseconds(1);

}  // namespace

FollowerLease::FollowerLease(Duration heartbeat_timeout, Instant now)
    : heartbeat_timeout_(heartbeat_timeout),
      contact_(now),
      answered_(now),
      next_beat_(now),
      stamp_came_at_(now) {
  DDP_CHECK(heartbeat_timeout.count() >= 0, "a timeout is a span of time, or 0 for none");
}

/// The acceptance proves that the coordinator was there when the hello went, not when it came back.
/// The answer may have lain in a buffer while this process stood still.
void FollowerLease::begin(Instant now, Instant asked_at) {
  DDP_CHECK(!begun_, "a lease begins once, with its connection");
  begun_ = true;
  next_beat_ = now;
  contact_ = std::min(now, asked_at);
  answered_ = contact_;
}

/// Counts from the sending of the oldest beat without an answer, for answers come in the order of
/// the beats. The coordinator waits from the arrival of the beat, which is later. A lease that
/// counted from the answer could outlast that wait, and the next world start beside this one.
/// Raft's leader lease counts from the sending of heartbeats, too (Ongaro's dissertation,
/// section 6.4.1).
bool FollowerLease::answered(Instant now, const Answer& answer) {
  take_stamp(now, answer.stamp);
  if (!unanswered_.empty()) {
    answered_ = unanswered_.front();
    contact_ = std::max(contact_, answered_ - answer.quorum_age.value_or(Duration(0)));
    unanswered_.pop_front();
    second_look_ = false;
  }
  coordinators_timeout_ = answer.timeout;
  needs_quorum_ = answer.quorum_age.has_value();
  hurry(now);
  return needs_quorum_;
}

/// An older stamp proves nothing new: neither to the coordinator, which gets it back, nor about the
/// time of the last contact.
void FollowerLease::take_stamp(Instant now, Instant stamp) {
  if (stamp > newest_stamp_) {
    newest_stamp_ = stamp;
    stamp_came_at_ = now;
  }
}

void FollowerLease::quorum_needed_soon(Instant now) {
  needs_quorum_ = true;
  hurry(now);
}

void FollowerLease::world_begins(Instant now) {
  if (is_short(now)) {
    next_beat_ = std::min(next_beat_, now);
  }
}

/// Moves the next beat forward, never back: it may be due already.
void FollowerLease::hurry(Instant now) {
  next_beat_ = std::min(next_beat_, now + beat_interval(now));
}

FollowerLease::Step FollowerLease::time_passed(Instant now, bool unread) {
  if (!beats()) {
    return Step::wait;
  }
  DDP_CHECK(now >= contact_, "the newest contact lies in the past");
  if (silent_for(now) >= lease_of(shorter_timeout())) {
    return unread && !std::exchange(second_look_, true) ? Step::look_again : Step::lost;
  }
  if (now < next_beat_) {
    return Step::wait;
  }
  next_beat_ = now + beat_interval(now);
  DDP_CHECK(next_beat_ > now, "the next beat is still to come");
  DDP_CHECK(unanswered_.empty() || unanswered_.back() <= now, "beats go in the order of time");
  unanswered_.push_back(now);
  return Step::beat;
}

std::optional<Instant> FollowerLease::due() const {
  if (!beats()) {
    return std::nullopt;
  }
  return std::min(contact_ + lease_of(shorter_timeout()), next_beat_);
}

/// Both sides must have given up by the end of the shorter one. Users may start agents with
/// different timeouts, and the coordinator waits for its own before it starts the next world.
FollowerLease::Duration FollowerLease::shorter_timeout() const {
  return coordinators_timeout_.count() > 0 ? std::min(heartbeat_timeout_, coordinators_timeout_)
                                           : heartbeat_timeout_;
}

bool FollowerLease::is_short(Instant now) const {
  return contact_ + lease_of(shorter_timeout()) - now < shorter_timeout() / 2;
}

/// follower_lease.h has the sum of the parts. A longer interval here shortens the stall that a job
/// survives; tests/sim/stall_test.cc measures it.
FollowerLease::Duration FollowerLease::beat_interval(Instant now) const {
  const Duration timeout = shorter_timeout();
  const Duration interval = !needs_quorum_ ? timeout * 2 / 5 : timeout / (is_short(now) ? 20 : 6);
  return std::max(interval, kBeatIntervalMin);
}

}  // namespace ddprun
