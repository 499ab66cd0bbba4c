// LastKnownState: what an agent remembers of its job, for the next coordinator (Past). Pure.
#pragma once

#include <chrono>
#include <optional>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/node_description.h"

namespace ddprun {

class LastKnownState {
 public:
  /// A configuration that this node is of may be about to be used; `attempt` is the newest of any.
  /// `at_endpoint`: as in Past, of the coordinator that says so.
  void announced(Term term, AttemptNumber attempt, ConfigurationNumber configuration, int voters,
                 bool at_endpoint);
  /// A world of that configuration was handed out to this node.
  void assigned(Term term, AttemptNumber attempt, ConfigurationNumber configuration, int group_rank,
                bool at_endpoint);
  /// This node follows a coordinator, from here on.
  void follows() { of_leader_ = false; }
  /// An attempt was handed out, to others at least: a witness is handed out none.
  void heard_of(AttemptNumber attempt);
  /// This agent is a standby of the coordinator of that state, and was told the story of the job.
  void told(const ReplicatedState& state, const JobSummary& so_far, Instant now);

  [[nodiscard]] const std::optional<Past>& past() const { return past_; }
  /// Its coordinator was last there at `at`. `saw_close`, `heartbeat_timeout`: as in Past.
  void lost(Instant at, bool saw_close, std::chrono::milliseconds heartbeat_timeout);
  /// All of it, into a hello.
  void fill(NodeDescription& node) const;

 private:
  std::optional<Past> past_;
  std::optional<RememberedHistory> history_;
  int newest_voters_ = 1;
  bool of_leader_ = false;  ///< past_ is of the coordinator that it follows
};

}  // namespace ddprun
