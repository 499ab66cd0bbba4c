// OldWorldFence: until when workers may run of the world before the next one, though no node that
// is here runs them. Pure; a part of Membership.
//
// A coordinator that handed out that world itself knows whose connection ended without a sign that
// the process is dead. Such a node may follow, and run its workers, until its lease is over.
//
// A coordinator that began without any state knows of that world by the nodes that come. A lease of
// the old world counts from a contact of its coordinator with a quorum. More than half of its
// voters are here, so one of them was in that contact, or a later one: the newest contact that they
// tell bounds all leases. Where the old coordinator's own vote is counted instead, it was at this
// endpoint. It died before this coordinator began; a node that saw the close knows when.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"

namespace ddprun {

class OldWorldFence {
 public:
  /// `inherited`: of a successor, when the leases of the world that it took over end.
  OldWorldFence(Instant began, std::chrono::nanoseconds heartbeat_timeout,
                std::optional<Instant> inherited = std::nullopt)
      : began_(began), heartbeat_timeout_(heartbeat_timeout), inherited_(inherited) {}

  /// A node with this past has come. It had its last contact at `contact`, on this clock.
  void told(const Past& past, Instant contact);
  /// This coordinator has handed out a world of its own. No worker of another was left then.
  void handed_out();
  /// The agent's connection ended while its workers ran; they may live until `lease_end`.
  void lost(VoterId agent, Instant lease_end);
  /// It is back. An agent without a coordinator ends its workers before it looks for one.
  void came(VoterId agent) { lost_.erase(agent); }

  /// From here on no such worker lives.
  [[nodiscard]] Instant over_at() const;
  /// That world was handed out by another coordinator.
  [[nodiscard]] bool is_of_another() const { return !handed_out_; }

 private:
  [[nodiscard]] Instant leases_of_another_end() const;

  Instant began_;
  std::chrono::nanoseconds heartbeat_timeout_;  ///< the longest
  std::optional<Instant> inherited_;
  bool handed_out_ = false;
  std::map<VoterId, Instant> lost_;  ///< when its lease ends
  ConfigurationNumber newest_{};
  bool at_endpoint_ = false;  ///< the coordinator of the newest
  bool saw_close_ = false;
  Instant contact_ = Instant::min() / 2;
};

}  // namespace ddprun
