// Training: how much of what the workers of a story do counts: what a snapshot has kept when their
// attempt ends.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/membership/world.h"
#include "tests/sim/random.h"

namespace ddprun::sim {

class Training {
 public:
  /// `interval` of work, then a snapshot for `cost`, and so on.
  Training(Duration interval, Duration cost) : interval_(interval), cost_(cost) {}

  /// A node made its first step; with the last one the attempt trains.
  void stepped(Duration now, const World& world) {
    if (attempt_ != world.attempt) {
      attempt_ = world.attempt;
      nodes_ = 0;
      since_.reset();
    }
    if (++nodes_ == world.group_world_size) {
      since_ = now;
    }
  }

  /// A worker of the attempt failed.
  void failed(Duration now, AttemptNumber attempt) {
    Duration kept(0);
    if (attempt_ == attempt && since_) {
      kept = interval_ * ((now - *since_).count() / (interval_ + cost_).count());
      since_.reset();
    }
    lives_.push_back({now - last_failure_, kept});
    last_failure_ = now;
  }

  /// From one failure to the next.
  struct Life {
    Duration lasted{};
    Duration kept{};
  };
  [[nodiscard]] const std::vector<Life>& lives() const { return lives_; }

 private:
  Duration interval_;
  Duration cost_;
  std::optional<AttemptNumber> attempt_;
  int nodes_ = 0;
  std::optional<Duration> since_;
  Duration last_failure_{};
  std::vector<Life> lives_;
};

}  // namespace ddprun::sim
