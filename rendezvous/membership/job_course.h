// JobCourse: the states of the job and what leads from one to the next, up to its end. Pure.
// docs/membership.md draws it.
//
//   gathering --> running            enough nodes (start_conditions.h), and a quorum has stored it
//   running   --> stopping           a worker failed, a member was lost, a node joined below max,
//                                    somebody asked to end the job (attempt.h)
//   stopping  --> running|gathering  all members said that their workers are gone, or were lost
//   any       --> ending             succeeded, failed, stopped or impossible
//   ending    --> over               so many nodes know it that no successor can go on
//
// Everybody is told the end only then: else a coordinator that dies while it tells the end would
// leave some that do the work again, beside others for whom the job is over.
//
// Membership (membership.h) owns it, and keeps what it refers to: the nodes, the absent ones, the
// current attempt, the comparison of environments. It decides who is in the job, and what an event
// of a node means; this decides what the job does then.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/absent_nodes.h"
#include "rendezvous/membership/attempt.h"
#include "rendezvous/membership/command.h"
#include "rendezvous/membership/environment_check.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/inheritance.h"
#include "rendezvous/membership/job_accounts.h"
#include "rendezvous/membership/job_ending.h"
#include "rendezvous/membership/job_nodes.h"
#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/membership_options.h"
#include "rendezvous/membership/start_conditions.h"
#include "rendezvous/membership/waiting_text.h"

namespace ddprun {

enum class JobState : std::uint8_t { gathering, running, stopping, ending, over };

class JobCourse {
 public:
  /// What it decides by, and changes; all outlive it.
  struct Parts {
    MembershipOptions& options;  ///< a successor's history is moved out of it
    JobNodes& nodes;
    AbsentNodes& absent;
    EnvironmentCheck& environment_check;
    JobAccounts& accounts;
    JobAttempt& attempt;
    std::vector<Command>& commands;  ///< orders are added here
  };
  /// Gathering begins at `now`; or the end that a successor inherits is made known.
  JobCourse(const Parts& parts, Instant now);

  /// It is `now` from here on. It never goes back.
  void set_time(Instant now);

  // Nodes. Each returns after what follows at once, such as the next world.

  /// This node was added to the job's.
  void joined(NodeId id, const NodeDescription& description);
  /// After joined(), once it was welcomed. `upset`: a plan was dropped for it.
  void take_in(NodeId id, bool upset);
  /// This node was removed from the job's. After this another may be admitted in its place.
  void left(const NodeLost& event);
  /// After left(): what the loss means for the attempt, or for what is waited for. `waiter` was
  /// admitted in its place.
  void lost(const JobNode& node, const NodeLost& event, std::optional<NodeId> waiter);
  /// Somebody came or was refused: people are told sooner.
  void absence_changed() { start_.changed(now_); }
  /// This node was refused for good; a gathering does not wait for it.
  void will_not_come(HostAndAddress who, RefusedNode refused);
  /// This node is part of no attempt, and begins to leave or runs no workers any more.
  void idle_node_leaves(const JobNode& node);

  // The end.

  /// Ends the job, unless its end is decided already. What is being saved is not saved any more.
  void end_job(JobEnding ending);
  /// Ends the job when its workers have saved; unless it ends otherwise already.
  void preempt(JobEnding ending);
  /// While the end is to be made known: an agent is asked to stop (`again`: not for the first
  /// time), and waits for no quorum that could store it, nor for nodes that are still starting. A
  /// successor ignores that until all that are known to be alive have come.
  void end_here(JobEnding ending, bool again);

  // Events that concern no particular node, and the consequences of those of workers.

  /// After each event of a member: the last one may have finished, or stopped.
  void attempt_changed();
  /// All workers of the running attempt have started: voters store that.
  void all_started();
  /// Workers told news of a running attempt: voters are told of it, now and then.
  void progress_told();
  void on(const NodeGreeted& event);
  void on(const StoreFailed& event);
  void on(const StateAcknowledged& event);
  void on(const TimePassed& event);

  [[nodiscard]] JobState state() const;
  [[nodiscard]] const Leadership& leadership() const { return leadership_; }
  /// Decided while stopping, or before everybody may be told.
  [[nodiscard]] const std::optional<JobEnding>& ending() const { return ending_; }
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  /// Constant time.
  void check_invariants() const;

 private:
  enum class Rest : std::uint8_t { gathering, ending, over };

  void joined_while_running(NodeId id);
  /// Those that leave, and are needed by no attempt, may end.
  void release_leaving();
  void attempt_stopped();
  void gather();
  void try_start();
  void plan();
  void committed();
  void assign();
  void catch_up(NodeId id);
  void tell_story();
  [[nodiscard]] SharedSummary so_far() const;
  void finish(JobEnding ending, std::chrono::nanoseconds patience = {});
  void try_end();
  void end_without_quorum();
  void tell_end();
  [[nodiscard]] WaitingFacts facts() const;

  const MembershipOptions& options_;
  JobNodes& nodes_;
  AbsentNodes& absent_;
  EnvironmentCheck& environment_check_;
  JobAccounts& accounts_;
  JobAttempt& attempt_;
  std::vector<Command>& commands_;
  Leadership leadership_;
  Inheritance inheritance_;
  StartConditions start_;
  Instant now_;
  Rest rest_ = Rest::gathering;  ///< while no attempt lives
  std::optional<JobEnding> ending_;
  bool plan_dropped_ = false;   ///< by the newest loss
  Instant progress_told_at_{};  ///< to the voters; or the attempt was assigned
  bool going_told_ = false;     ///< the voters know that the attempt has made its first step
};

}  // namespace ddprun
