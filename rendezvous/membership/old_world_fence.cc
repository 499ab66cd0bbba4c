#include "rendezvous/membership/old_world_fence.h"

#include <algorithm>

namespace ddprun {

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

Instant OldWorldFence::over_at() const {
  const bool lived_on = at_endpoint_ && !saw_close_;
  return (lived_on ? std::max(contact_, began_) : contact_) + heartbeat_timeout_;
}

}  // namespace ddprun
