// LastKnownState: what an agent remembers of its job, for the next coordinator (Past). Pure.
#pragma once

#include <optional>

#include "rendezvous/membership/configuration.h"

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
  /// That coordinator is lost. `died`: as in Past.
  void lost(bool died);
  /// An attempt was handed out, to others at least: a witness is handed out none.
  void heard_of(AttemptNumber attempt);

  [[nodiscard]] const std::optional<Past>& past() const { return past_; }

 private:
  std::optional<Past> past_;
  int newest_voters_ = 1;
  bool of_leader_ = false;  ///< past_ is of the coordinator that it follows
};

}  // namespace ddprun
