#include "rendezvous/node/follower_lease.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr FollowerLease::Duration kBeatIntervalMin = std::chrono::milliseconds(1);

}  // namespace

FollowerLease::FollowerLease(Duration heartbeat_timeout, Instant now)
    : heartbeat_timeout_(heartbeat_timeout), contact_(now), next_beat_(now), stamp_came_at_(now) {}

void FollowerLease::begin(Instant now, Instant asked_at) {
  begun_ = true;
  next_beat_ = now;
  contact_ = std::min(now, asked_at);
}

bool FollowerLease::answered(Instant now, const Answer& answer) {
  take_stamp(now, answer.stamp);
  if (!unanswered_.empty()) {
    contact_ = std::max(contact_, unanswered_.front() - answer.quorum_age.value_or(Duration(0)));
    unanswered_.pop_front();
    second_look_ = false;
  }
  coordinators_timeout_ = answer.timeout;
  needs_quorum_ = answer.quorum_age.has_value();
  hurry(now);
  return needs_quorum_;
}

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

void FollowerLease::hurry(Instant now) {
  next_beat_ = std::min(next_beat_, now + beat_interval(now));
}

FollowerLease::Step FollowerLease::time_passed(Instant now, bool unread) {
  if (!beats()) {
    return Step::wait;
  }
  if (silent_for(now) >= lease_of(shorter_timeout())) {
    return unread && !std::exchange(second_look_, true) ? Step::look_again : Step::lost;
  }
  if (now < next_beat_) {
    return Step::wait;
  }
  next_beat_ = now + beat_interval(now);
  unanswered_.push_back(now);
  return Step::beat;
}

std::optional<Instant> FollowerLease::due() const {
  if (!beats()) {
    return std::nullopt;
  }
  return std::min(contact_ + lease_of(shorter_timeout()), next_beat_);
}

FollowerLease::Duration FollowerLease::shorter_timeout() const {
  return coordinators_timeout_.count() > 0 ? std::min(heartbeat_timeout_, coordinators_timeout_)
                                           : heartbeat_timeout_;
}

/// follower_lease.h says what the parts of a timeout are for.
FollowerLease::Duration FollowerLease::beat_interval(Instant now) const {
  const Duration timeout = shorter_timeout();
  const bool is_short = contact_ + lease_of(timeout) - now < timeout / 2;
  const Duration interval = !needs_quorum_ ? timeout * 2 / 5 : timeout / (is_short ? 20 : 6);
  return std::max(interval, kBeatIntervalMin);
}

}  // namespace ddprun
