#include "rendezvous/node/follower_lease.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

/// Between two beats, of a heartbeat timeout; follower_lease.h says what they are for.
constexpr FollowerLease::Duration interval(FollowerLease::Duration timeout, bool needs_quorum) {
  return needs_quorum ? timeout / 6 : timeout * 2 / 5;
}
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
  if (coordinators_timeout_ != answer.timeout || needs_quorum_ != answer.quorum_age.has_value()) {
    coordinators_timeout_ = answer.timeout;
    needs_quorum_ = answer.quorum_age.has_value();
    hurry(now);
  }
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
  next_beat_ = std::min(next_beat_, now + beat_interval());
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
  next_beat_ = now + beat_interval();
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

FollowerLease::Duration FollowerLease::beat_interval() const {
  return std::max(interval(shorter_timeout(), needs_quorum_), kBeatIntervalMin);
}

}  // namespace ddprun
