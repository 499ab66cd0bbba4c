// LastKnownState: what an agent remembers of its job, for the next coordinator (Past, StateCopy).
// Pure.
#pragma once

#include <chrono>
#include <optional>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/node_description.h"

namespace ddprun {

class LastKnownState {
 public:
  /// This node follows a coordinator, from here on. `at_endpoint`, `host`: as in StateCopy.
  void follows(bool at_endpoint, const HostIdentity& host);
  /// The coordinator is in this agent.
  void leads();
  /// This agent is a voter, and keeps this state.
  void told(const ReplicatedState& state, const JobSummary& so_far, Instant now);
  /// For a voter: what has happened since. A newer attempt is of the configuration that it keeps.
  void story(AttemptNumber attempt, const JobSummary& so_far, Instant now);
  /// For a voter: nodes have come since.
  void more_nodes(const std::vector<VoterAddress>& nodes);
  /// A world was handed out to this node, as it says but for where the coordinator is. What this
  /// node knows of another instance is forgotten.
  void assigned(const Past& world);
  /// Its coordinator was last there at `at`. `saw_close`, `heartbeat_timeout`: as in Past.
  void lost(Instant at, bool saw_close, std::chrono::milliseconds heartbeat_timeout);

  [[nodiscard]] const std::optional<Past>& past() const { return past_; }
  /// All of it, into a hello.
  void fill(NodeDescription& node) const;

 private:
  std::optional<Past> past_;
  std::optional<StateCopy> copy_;
  bool of_leader_ = false;       ///< past_ is of the coordinator that it follows
  bool copy_of_leader_ = false;  ///< and so is copy_
  bool at_endpoint_ = false;     ///< the coordinator that it follows
  HostIdentity host_;
};

}  // namespace ddprun
