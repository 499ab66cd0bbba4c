#include <poll.h>
#include <sys/ioctl.h>

#include <utility>

#include "rendezvous/base/text.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

// Liveness, both sides of it. The beating side has a FollowerLease, which decides when to beat and
// when the peer is lost. The answering side answers each beat and measures only silence.

bool has_unread_bytes(int socket) {
  int bytes = 0;
  return ::ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

/// Reading would find something: then this process was late, as one that was stopped is, or whose
/// machine was. An end counts as well. How the peer closed says more than its silence: the process
/// that ends is dead, and led or followed until then. Not asked by recv(2), which takes a reset
/// away: the read after it would find an orderly end, and take a peer that lives for dead.
bool has_news(int socket) {
  pollfd entry{socket, POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

/// Bytes that wait already may be older than the death of the peer. So the read that takes them
/// does not count, and the next one does.
void Connection::watch() {
  reads_to_heard_ = has_unread_bytes(socket_.native_handle()) ? 2 : 1;
}

bool Connection::heart_beats() const {
  return !preamble_pending_ && options_.heartbeat_timeout.count() > 0;
}

/// The stamp of the newest answer goes back, so that the coordinator learns on its own clock how
/// long ago this agent certainly followed it.
void Connection::beat() {
  send(encode(
      message::Beat{options_.heartbeat_timeout, lease_->newest_stamp().count(), std::nullopt}));
}

std::int64_t Connection::stamp_now() {
  return Clock::now().time_since_epoch().count();
}

/// The beats become quick before the quorum is needed: a lease that depends on the quorum from the
/// next world on would begin with a contact that is a slow beat old.
void Connection::take_stamp(std::int64_t stamp, bool soon) {
  const Instant now = Clock::now().time_since_epoch();
  lease_->take_stamp(now, Instant(stamp));
  if (soon && heart_beats() && !over_) {
    lease_->quorum_needed_soon(now);
    arm_timer();
  }
}

void Connection::world_begins() {
  if (lease_) {
    lease_->world_begins(Clock::now().time_since_epoch());
    arm_timer();
  }
}

void Connection::take_beat(const message::Beat& beat) {
  if (lease_) {
    if (lease_->answered(Clock::now().time_since_epoch(),
                         {beat.timeout, Instant(beat.stamp), beat.quorum_age})) {
      send(encode(message::Echo{beat.stamp}));
    }
  } else {
    answer(beat);
  }
  arm_timer();
}

/// At once and with a fresh stamp: an answer that waits here shortens the lease of the agent, which
/// counts from the beat and not from the answer.
void Connection::answer(const message::Beat& beat) {
  echoed(beat.stamp);
  send(encode(message::Beat{options_.heartbeat_timeout, stamp_now(), handler_.quorum_age()}));
}

void Connection::echoed(std::int64_t stamp) {
  // 0: the agent has no stamp yet.
  if (stamp > 0) {
    handler_.on_echoed(id_, Clock::time_point(Clock::duration(stamp)));
  }
}

/// Liveness counts from the preamble: before it nobody is known to be there, and preamble_timeout
/// limits that time.
void Connection::begin_heartbeat() {
  heard_at_ = Clock::now();
  if (lease_) {
    lease_->begin(heard_at_.time_since_epoch(), options_.asked_at.time_since_epoch());
  }
  arm_timer();
}

/// One timer serves four purposes, since only one of them holds at a time. Each beat moves it, so
/// it fires for a silence that lasts, and 10,000 idle agents cost their coordinator no other
/// wake-up. The answer to a beat moves nothing on the beating side: its wait goes on.
void Connection::arm_timer() {
  auto due = Clock::time_point::max();
  if (lingering_) {
    due = linger_ends_;
  } else if (heart_beats()) {
    due = lease_ ? Clock::time_point(*lease_->due()) : heard_at_ + options_.heartbeat_timeout;
  } else if (preamble_pending_ && options_.preamble_timeout.count() > 0) {
    due = heard_at_ + options_.preamble_timeout;
  }
  if (over_ || due == Clock::time_point::max()) {
    timer_.expires_at(Clock::time_point::max());  // cancels, and is no time that may be due later
    return;
  }
  if (timer_.expiry() == due && Clock::now() < due) {
    return;
  }
  timer_.expires_at(due);
  timer_.async_wait([self = shared_from_this()](boost::system::error_code failed) {
    if (!failed && !self->over_) {
      self->on_timer();
    }
  });
}

void Connection::on_timer() {
  const auto now = Clock::now();
  if (lingering_) {
    if (now >= linger_ends_) {
      end("it did not read its last message");
    }
  } else if (heart_beats()) {
    lease_ ? on_lease_timer(now) : on_silence_timer(now);
  } else if (preamble_pending_ && now - heard_at_ >= options_.preamble_timeout) {
    // The handler decides what becomes of the socket, so nothing is timed any more.
    handler_.on_no_preamble(id_, {PreambleVerdict::incomplete, 0}, std::move(preamble_));
    return;
  }
  arm_timer();
}

void Connection::on_lease_timer(Clock::time_point now) {
  const bool news = has_news(socket_.native_handle());
  switch (lease_->time_passed(now.time_since_epoch(), news)) {
    case FollowerLease::Step::wait:
    case FollowerLease::Step::look_again:  // the timer is due at once, and reading comes before it
      break;
    case FollowerLease::Step::beat:
      beat();
      break;
    case FollowerLease::Step::lost:
      lost_lease(now.time_since_epoch());
      break;
  }
}

void Connection::on_silence_timer(Clock::time_point now) {
  if (now - heard_at_ < options_.heartbeat_timeout) {
    return;
  }
  // A coordinator that wakes up must not lose all agents at once for its own absence.
  if (!has_news(socket_.native_handle())) {
    fell_silent(now - heard_at_);
    return;
  }
  heard_at_ = now;
}

/// Of the two reasons for it, the one that it was.
void Connection::lost_lease(Instant now) {
  const auto without_contact = lease_->silent_for(now);
  if (!lease_->is_answered(now)) {
    fell_silent(without_contact);
    return;
  }
  end("it answers, but for " + seconds_text(without_contact) +
          " too few of those that decide for the job have followed it",
      without_contact);
}

void Connection::fell_silent(std::chrono::nanoseconds silent_for) {
  end("it was silent for " + seconds_text(silent_for), silent_for);
}

}  // namespace ddprun
