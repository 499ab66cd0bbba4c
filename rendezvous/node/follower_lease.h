// FollowerLease: how long an agent may rely on its coordinator, and when it sends its next beat.
// Pure; the owner has the connection and one timer.
//
// The coordinator answers each beat at once. An answer proves that the coordinator was there when
// the beat was sent, not when the answer came: the lease counts from the sending. Where the
// coordinator needs a quorum to go on, its answer also says how old its contact with one is. The
// lease counts from that contact, because a coordinator that others may have left is as good as
// lost. It ends a tenth before the heartbeat timeout: that tenth is for the workers to die in.
//
// What a stall may last, of a coordinator's process or of the network, in parts of the heartbeat
// timeout: without a quorum 0.9 less the 0.4 between two beats. With one 0.9, less the sixth
// between two beats, less the age of the contact that an answer tells (a sixth, since the slowest
// voter echoed a stamp), less a twentieth: the first answers after a stall tell of the contact
// before it, so an agent whose lease is short asks twenty times in a timeout. So nobody is lost by
// half of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "rendezvous/membership/event.h"

namespace ddprun {

/// The end of a lease: nine tenths of the heartbeat timeout after the newest contact.
constexpr std::chrono::nanoseconds lease_of(std::chrono::nanoseconds heartbeat_timeout) {
  return heartbeat_timeout - heartbeat_timeout / 10;
}

class FollowerLease {
 public:
  using Duration = std::chrono::nanoseconds;

  /// An answer of the coordinator to a beat.
  struct Answer {
    Duration timeout{};  ///< the coordinator's heartbeat timeout
    Instant stamp{};     ///< on the coordinator's clock; 0: none
    /// Where the coordinator needs others: the age of its contact with a quorum.
    std::optional<Duration> quorum_age;
  };

  enum class Step : std::uint8_t {
    wait,
    beat,        ///< send a beat that echoes newest_stamp()
    look_again,  ///< it seems lost, but something waits unread: read it, then ask again
    lost,
  };

  /// `heartbeat_timeout` 0: nothing is ever due, and nobody is lost.
  FollowerLease(Duration heartbeat_timeout, Instant now);
  /// The first beat is due now. `asked_at`: when the agent asked for the answer that it has.
  void begin(Instant now, Instant asked_at);

  /// True: echo newest_stamp() at once. The coordinator needs a quorum, and its contact would be
  /// older by the time to the next beat.
  [[nodiscard]] bool answered(Instant now, const Answer& answer);
  /// A stamp that came with another message than an answer.
  void take_stamp(Instant now, Instant stamp);
  /// The coordinator is about to need a quorum, and contact with it that is young.
  void quorum_needed_soon(Instant now);
  /// The coordinator has handed out a world, so it has contact with its quorum. A lease that is
  /// nearly over is renewed now, or that world would lose this node at once.
  void world_begins(Instant now);
  /// `unread`: bytes of the coordinator wait here. They mean that this process was late. It reads
  /// them, for an answer may be among them, but once: lateness as such is no excuse, because the
  /// others have gone on without it by now.
  Step time_passed(Instant now, bool unread);

  /// When time_passed() is due; none: never.
  [[nodiscard]] std::optional<Instant> due() const;
  /// Since the newest contact.
  [[nodiscard]] Duration silent_for(Instant now) const { return now - contact_; }
  /// The coordinator is there: a beat of the newer half of the timeout was answered. Where the
  /// lease is lost all the same, it is the coordinator that has no contact with its quorum.
  [[nodiscard]] bool is_answered(Instant now) const {
    return now - answered_ < shorter_timeout() / 2;
  }
  [[nodiscard]] Instant newest_stamp() const { return newest_stamp_; }
  /// On the agent's clock.
  [[nodiscard]] Instant stamp_came_at() const { return stamp_came_at_; }

 private:
  [[nodiscard]] bool beats() const { return begun_ && heartbeat_timeout_.count() > 0; }
  [[nodiscard]] Duration shorter_timeout() const;
  [[nodiscard]] bool is_short(Instant now) const;
  [[nodiscard]] Duration beat_interval(Instant now) const;
  void hurry(Instant now);

  Duration heartbeat_timeout_;
  Duration coordinators_timeout_{};  ///< 0: not told yet
  bool begun_ = false;
  bool needs_quorum_ = false;  ///< as the newest answer says
  bool second_look_ = false;
  Instant contact_;
  Instant answered_;  ///< when the newest beat that was answered was sent
  Instant next_beat_;
  Instant newest_stamp_{};
  Instant stamp_came_at_;
  std::deque<Instant> unanswered_;  ///< when those beats were sent; ends with the lease
};

}  // namespace ddprun
