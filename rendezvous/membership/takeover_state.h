// TakeoverState: what a coordinator that comes after another goes on with. Plain values.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/failure.h"

namespace ddprun {

/// What a successor goes on with.
struct TakeoverState {
  ReplicatedState known;
  AttemptNumber first_attempt{};
  JobSummary so_far;
  /// Nodes that are known to be alive, this one too, and how long to wait for them.
  int expected = 1;
  std::chrono::nanoseconds patience{};
  /// After this long no worker lives of a node that is not here (Election::leases_end).
  std::chrono::nanoseconds leases_end_in{};
  /// How long ago the coordinator before was lost, and what is known of it, as a clause.
  std::chrono::nanoseconds lost_for{};
  std::string why = {};
  /// How long ago `so_far` was told.
  std::chrono::nanoseconds told_ago{};
  /// The coordinator before was not seen to die: it may stand still, and search for this one later.
  bool leader_may_live = false;
};

}  // namespace ddprun
