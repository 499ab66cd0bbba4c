// FollowerQuorum: the coordinator's contact with a quorum, from what its connections have told.
// Internal to control.
#pragma once

#include <map>

#include "rendezvous/control/agent_session.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/node/leader_lease.h"

namespace ddprun {

class FollowerQuorum final : public LeaderLease::Quorum {
 public:
  /// Both outlive this.
  FollowerQuorum(const Membership& membership, const std::map<NodeId, AgentSession>& sessions)
      : membership_(membership), sessions_(sessions) {}

  [[nodiscard]] bool needed() const override;
  [[nodiscard]] bool needed_later() const override;
  [[nodiscard]] Instant contact(Instant now) const override;
  [[nodiscard]] bool outdated() const override;

 private:
  const Membership& membership_;
  const std::map<NodeId, AgentSession>& sessions_;
};

}  // namespace ddprun
