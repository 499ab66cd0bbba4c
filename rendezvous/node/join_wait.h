// JoinWait: since when a node waits for a world; its join timeout counts from there. Pure.
#pragma once

#include <chrono>
#include <optional>

#include "rendezvous/membership/event.h"

namespace ddprun {

class JoinWait {
 public:
  /// `keeps`: a coordinator that was lost before it began a world begins no new wait. A service may
  /// let many lead in turn, each for a lease, and a node would wait for ever.
  JoinWait(std::chrono::nanoseconds join_timeout, bool keeps)
      : join_timeout_(join_timeout), keeps_(keeps) {}

  /// The node has started.
  void begin(Instant now) { since_ = lost_at_ = now; }
  /// It follows a coordinator from now on, or is one.
  void met(Instant now);
  /// That one has said that a world runs which does not need this node.
  void is_spare() { had_world_ = true; }
  /// That one is lost, and no worker lives. `newest`: the newest attempt that this node was part
  /// of.
  void lost(Instant now, std::optional<AttemptNumber> newest);

  [[nodiscard]] Instant since() const { return since_; }
  [[nodiscard]] Instant ends_at() const { return since_ + join_timeout_; }
  /// At least a moment, so that what it bounds has an end of its own.
  [[nodiscard]] std::chrono::milliseconds left(Instant now) const;
  /// The newest loss, or the start.
  [[nodiscard]] Instant lost_at() const { return lost_at_; }

 private:
  std::chrono::nanoseconds join_timeout_;
  bool keeps_;
  Instant since_{};
  Instant lost_at_{};
  Instant met_at_{};
  bool had_world_ = false;                ///< since met()
  std::optional<AttemptNumber> attempt_;  ///< the newest at the loss before
};

}  // namespace ddprun
