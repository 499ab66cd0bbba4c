// Inheritance: what a coordinator takes over of one before it: the accounts of the job, and its
// end where that was decided. Pure.
//
// There are two ways. A successor was elected and has the state from the start (TakeoverState). A
// coordinator that began without any state learns from the nodes that come, each with the copy that
// it stored as a voter; the newest counts. Which world is in use, and who decides, is
// Leadership's part (leadership.h).
#pragma once

#include <chrono>
#include <optional>
#include <tuple>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/job_accounts.h"
#include "rendezvous/membership/job_ending.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/takeover_state.h"

namespace ddprun {

class Inheritance {
 public:
  /// `self`: the coordinator's own agent. `accounts` outlives this.
  Inheritance(VoterId self, JobAccounts& accounts) : self_(self), accounts_(accounts) {}

  /// A successor begins. The end of the job, where its predecessor had decided it.
  std::optional<JobEnding> take_over(TakeoverState& state, Instant now);
  /// A node came to a coordinator that began without any state, and has handed out no world yet.
  /// Its copy is ignored unless it is newer than those of other nodes.
  void remember(const NodeDescription& node, Instant now);
  /// The end of the job that the newest copy tells of, once; to be asked when a quorum follows.
  std::optional<JobEnding> take_remembered_end();

 private:
  /// Term, attempt, and the job's time by then: later copies are larger.
  using CopyAge = std::tuple<ConfigurationNumber, AttemptNumber, std::chrono::nanoseconds>;

  VoterId self_;
  JobAccounts& accounts_;
  CopyAge newest_{};  ///< that was remembered
  std::optional<JobEnding> remembered_end_;
};

}  // namespace ddprun
