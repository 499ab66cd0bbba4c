// Membership: the one authority on who is in the job, and in the world of which attempt. Pure:
// time comes in with each event, commands go out; no socket, clock, thread or log inside. Same
// events, same commands.
//
// It takes every event, decides who is let in (admission.h), who waits for a rank, who leaves, and
// passes on what the event means for the rest:
//
//   JobNodes      the nodes of the job that are here, and their ranks
//   AbsentNodes   the refused and the lost
//   JobAttempt    the workers of the current attempt, and how they are stopped
//   JobCourse     the states of the job, from gathering to its end; its header draws them
//   JobAccounts   what the whole job has been through and spent
//
// A node that joins with a --node-rank already in use waits: the current holder may be dead but not
// yet detected. If the holder is lost, the newcomer takes its place; if the holder sends anything,
// the newcomer is rejected. If the newcomer is the same life of the same agent, the old connection
// is closed at once.
//
// What holds at any time: workers of one attempt at most are alive, for the next is assigned only
// when every member of the one before has stopped or is lost (a lost node fences itself). Attempt
// numbers rise by one and are never used twice; whatever a node says of another attempt than the
// current one is ignored, so late and repeated messages do no harm.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/membership/absent_nodes.h"
#include "rendezvous/membership/admission.h"
#include "rendezvous/membership/attempt.h"
#include "rendezvous/membership/command.h"
#include "rendezvous/membership/environment_check.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/job_accounts.h"
#include "rendezvous/membership/job_course.h"
#include "rendezvous/membership/job_history.h"
#include "rendezvous/membership/job_nodes.h"
#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/membership_options.h"
#include "rendezvous/membership/rank_contenders.h"

namespace ddprun {

/// What is known at one moment. The two references are to Membership's own.
struct MembershipView {
  const JobNodes& nodes;
  const AbsentNodes& absent;
  JobSummary so_far;  ///< without evidence of failures; its verdict says nothing
  bool ends = false;  ///< its end is decided, also where workers still save or stop for it
};

class Membership {
 public:
  /// Gathering begins at `now`.
  Membership(MembershipOptions options, Instant now);
  Membership(const Membership&) = delete;  // its parts refer to each other
  Membership& operator=(const Membership&) = delete;

  /// Takes one event and returns what is to be done about it, in order. `now` never goes back.
  /// Total: events of unknown nodes, of other attempts, and repeated ones are ignored. The caller
  /// owes: fresh node ids, NodeLost once the connection of a welcomed node is gone (also after
  /// FinishJob), TimePassed when next_deadline() has come.
  std::vector<Command> apply(Instant now, Event event);

  /// When TimePassed is due; none while nothing waits for time.
  [[nodiscard]] std::optional<Instant> next_deadline() const { return course_.next_deadline(); }

  [[nodiscard]] JobState state() const { return course_.state(); }
  /// The attempt that runs, is being stopped, or was the last one.
  [[nodiscard]] std::optional<AttemptNumber> attempt() const { return attempt_.number(); }
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  /// Of them, those that can run workers.
  [[nodiscard]] std::size_t workers_here() const { return nodes_.workers_here(); }
  [[nodiscard]] int restarts_used() const { return accounts_.budget().used(); }
  /// It would be rejected if it joined now.
  [[nodiscard]] bool refuses(const NodeDescription& node) const {
    return refusal(node).has_value();
  }
  /// Who decides for the job (leadership.h).
  [[nodiscard]] const Leadership& leadership() const { return course_.leadership(); }
  /// What has happened, and where the time went.
  [[nodiscard]] const JobHistory& record() const { return accounts_.history(); }
  /// All workers of the attempt have been spawned.
  [[nodiscard]] bool all_started() const { return attempt_.all_started(); }
  /// For people who ask how the job is.
  [[nodiscard]] MembershipView view(Instant now) const {
    return {nodes_, absent_, accounts_.so_far(nullptr, now), course_.ending().has_value()};
  }

 private:
  // Nodes that come and go.
  void on(NodeJoined event);
  void on(const StrangerTurnedAway& event);
  void on(const CallerCame& event) { absent_.called(event.address, now_); }
  void on(const NodeHeard& event);
  void on(const NodeLost& event);
  void on(EnvironmentTold event);
  // Agents that are asked to stop, or give up.
  void on(const StopRequested& event);
  void on(const NodeGaveUp& event);
  // Workers of the current attempt.
  void on(const WorkersStarted& event);
  void on(WorkerFailed event);
  void on(const WorkersFinished& event);
  void on(WorkersStopped event);
  void on(const WorkersHung& event);
  void on(const WorkersProgress& event);
  // The rest concerns the course of the job.
  template <class Other>
  void on(const Other& event) {
    course_.on(event);
  }

  [[nodiscard]] std::optional<Refusal> refusal(const NodeDescription& node) const;
  void reject(NodeId id, const NodeDescription& node, const std::string& address, Refusal refused);
  bool lets_in(const NodeJoined& event);
  void admit(const NodeJoined& event);
  void contend(NodeJoined event);
  std::optional<NodeId> next_waiter(const JobNode& lost);
  void carry_out_environment_check();
  void let_go(NodeId id, JobNode& node, int signal);
  void go_on_without(NodeId id, JobNode& node, const std::string& why);
  void tell_turn(NodeId id, std::string note);
  void check_invariants() const;

  MembershipOptions options_;
  JobTerms terms_;
  Instant now_;
  std::vector<Command> commands_;  ///< of the event that is dealt with
  JobNodes nodes_;
  RankContenders contenders_;
  AbsentNodes absent_;
  EnvironmentCheck environment_check_;
  JobAccounts accounts_;
  JobAttempt attempt_;
  JobCourse course_;  ///< refers to most of the above
};

}  // namespace ddprun
