#include "rendezvous/membership/old_world_fence.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

/// Only nodes of the newest world say where its coordinator was, and whether it was seen to die.
/// But the newest contact of any node bounds all leases.
void OldWorldFence::told(const Past& past, Instant contact) {
  if (past.configuration > newest_) {
    newest_ = past.configuration;
    at_endpoint_ = saw_close_ = false;
  }
  if (past.configuration == newest_) {
    at_endpoint_ = at_endpoint_ || past.at_endpoint;
    saw_close_ = saw_close_ || past.saw_close;
  }
  contact_ = std::max(contact_, contact);
  heartbeat_timeout_ =
      std::max<std::chrono::nanoseconds>(heartbeat_timeout_, past.heartbeat_timeout);
}

/// That world was held back until all of these were over (StartConditions).
void OldWorldFence::handed_out() {
  handed_out_ = true;
  lost_.clear();
}

void OldWorldFence::lost(VoterId agent, Instant lease_end) {
  Instant& end = lost_.try_emplace(agent, lease_end).first->second;
  end = std::max(end, lease_end);  // agents of a job without failover have no number of their own
  DDP_CHECK(end >= lease_end, "the fence holds until that lease is over");
}

/// Half of the range: sums with a timeout must not overflow.
Instant OldWorldFence::over_at() const {
  Instant over = handed_out_ ? Instant::min() / 2 : leases_of_another_end();
  for (const auto& [agent, lease_end] : lost_) {
    over = std::max(over, lease_end);
  }
  return over;
}

/// A coordinator at this endpoint lived until this one could open the port. Its last contact may
/// have been as late as that, unless somebody saw its connection close before.
Instant OldWorldFence::leases_of_another_end() const {
  if (inherited_) {
    return *inherited_;
  }
  const bool lived_on = at_endpoint_ && !saw_close_;
  return (lived_on ? std::max(contact_, began_) : contact_) + heartbeat_timeout_;
}

}  // namespace ddprun
