// OldWorldFence: until when workers may run of a world that a coordinator did not hand out itself.
// It began without any state, so it knows of that world by the nodes that come. Pure; a part of
// Membership.
//
// A lease of the old world counts from a contact of its coordinator with a quorum. More than half
// of its voters are here, so one of them was in that contact, or a later one: the newest contact
// that they tell bounds all leases. Where the old coordinator's own vote is counted instead, it was
// at this endpoint. It died before this coordinator began; a node that saw the close knows when.
#pragma once

#include <chrono>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"

namespace ddprun {

class OldWorldFence {
 public:
  OldWorldFence(Instant began, std::chrono::nanoseconds heartbeat_timeout)
      : began_(began), heartbeat_timeout_(heartbeat_timeout) {}

  /// A node with this past has come. It had its last contact at `contact`, on this clock.
  void told(const Past& past, Instant contact);
  /// From here on no such worker lives.
  [[nodiscard]] Instant over_at() const;

 private:
  Instant began_;
  std::chrono::nanoseconds heartbeat_timeout_;  ///< the longest
  ConfigurationNumber newest_{};
  bool at_endpoint_ = false;  ///< the coordinator of the newest
  bool saw_close_ = false;
  Instant contact_ = Instant::min() / 2;
};

}  // namespace ddprun
