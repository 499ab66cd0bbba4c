// JobMemory: what an agent remembers of its job, for the next coordinator (Past). Pure.
#pragma once

#include <optional>

#include "rendezvous/membership/succession.h"

namespace ddprun {

class JobMemory {
 public:
  /// A roster that this node is of may be about to be used; `attempt` is the newest of any.
  /// `at_endpoint`: as in Past, of the coordinator that says so.
  void announced(Term term, AttemptNumber attempt, RosterNumber roster, int electors,
                 bool at_endpoint);
  /// A world of that roster was handed out to this node.
  void assigned(Term term, AttemptNumber attempt, RosterNumber roster, int group_rank,
                bool at_endpoint);
  /// An attempt was handed out, to others at least: a witness is handed out none.
  void heard_of(AttemptNumber attempt);

  [[nodiscard]] const std::optional<Past>& past() const { return past_; }

 private:
  std::optional<Past> past_;
  int newest_electors_ = 1;
};

}  // namespace ddprun
