// JobAttempt: the current attempt, from the moment at which its world is handed out until no worker
// of it is left. Pure. Between attempts it answers for the one before.
//
//   begin()                  --> it runs: every member starts its workers
//   stop()                   --> it is being stopped: every member is sent StopWorkers
//   all_finished()           --> all workers exited with 0; nothing is to be stopped
//   all_stopped()            --> every member has stopped, or was lost
//   end()                    --> it does not live any more; no worker is left
//
// It owns the phases of the nodes (job_nodes.h) and their counts, the incident that ends it
// (incident.h), and what the workers told. It decides when members have to stop, but not what
// follows: JobCourse (job_course.h) asks all_finished() and all_stopped() after each event that may
// end it.
//
// Events of nodes that are no members, of other attempts, and repeated ones are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/attempt_stop.h"
#include "rendezvous/membership/command.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/job_history.h"
#include "rendezvous/membership/job_nodes.h"
#include "rendezvous/membership/rank_order.h"
#include "rendezvous/membership/restart_policy.h"

namespace ddprun {

class JobAttempt {
 public:
  /// All three outlive it. Orders to the members go to `commands`.
  JobAttempt(JobNodes& nodes, JobHistory& history, std::vector<Command>& commands);

  /// This world is handed out now; none lives.
  void begin(AttemptNumber number, const std::vector<RankedNode>& world);
  /// No worker of it is left, or none may be: the job is over.
  void end();

  /// True: with this one, all workers of all its nodes have started.
  bool on(const WorkersStarted& event, Instant now);
  void on(WorkerFailed event, Instant now);
  void on(const WorkersFinished& event, Instant now);
  void on(WorkersStopped event, Instant now);
  void on(const WorkersHung& event, Instant now);
  /// True: the attempt runs, and this is news of it.
  bool on(const WorkersProgress& event, Instant now);

  /// While it runs. `signal`: see StopWorkers.
  void stop(const std::string& reason, StopHow how, int signal, Instant now);
  /// What was to be saved is not to be saved any more, or cannot be. Nothing happens unless it is
  /// being stopped, and on repeat.
  void hurry(const std::string& reason);
  /// While it is being stopped: the job ends with it, and what is being saved is saved for that.
  void preempt_too(const std::string& reason, int signal);
  /// While it is being stopped: the job ends with it, and nothing is to be saved any more.
  void end_too(const std::string& reason, int signal);
  /// This node was one of its members, and is not here any more.
  void lost(const JobNode& node, const std::string& why, Instant lost_at, Instant now);
  /// This member is here, but cannot run its workers. It is none from here on.
  void gave_up(JobNode& node, const std::string& why, Instant now);
  /// While it runs: this member leaves in order, and the others save for that.
  void stop_for_leaver(const JobNode& node, Instant now);
  /// While it runs: the world is stopped to take this node in.
  void stop_to_grow(const JobNode& node, StopHow how, Instant now);

  /// The attempt that lives, or the last one; none before the first.
  [[nodiscard]] std::optional<AttemptNumber> number() const { return number_; }
  [[nodiscard]] bool lives() const { return state_ != State::none; }
  [[nodiscard]] bool runs() const { return state_ == State::running; }
  [[nodiscard]] bool is_stopping() const { return state_ == State::stopping; }
  /// It runs, and all its workers have been spawned.
  [[nodiscard]] bool all_started() const { return runs() && unstarted_ == 0; }
  [[nodiscard]] bool all_finished() const { return runs() && working_ == 0; }
  [[nodiscard]] bool all_stopped() const;
  /// Nodes of its world when it was handed out.
  [[nodiscard]] int world_nodes() const { return world_nodes_; }
  /// A member has finished, maybe one that was lost since.
  [[nodiscard]] bool any_finished() const { return finished_ > 0; }
  /// Some of the workers that finished did so because they were signalled, by another than us.
  [[nodiscard]] bool left_unasked() const { return left_unasked_; }
  /// What the workers told of it.
  [[nodiscard]] const AttemptStory& story() const { return story_; }
  [[nodiscard]] const AttemptStop& order() const { return stop_; }
  /// Why it is being stopped; none: on request, or it runs.
  [[nodiscard]] const std::optional<IncidentBuilder>& incident() const { return incident_; }
  /// The incident, which is none of this attempt's any more.
  std::optional<IncidentBuilder> take_incident();
  /// Constant time.
  void check_invariants() const;

 private:
  enum class State : std::uint8_t { none, running, stopping };

  JobNode* member(NodeId id, AttemptNumber attempt);
  JobNode* member_with_workers(NodeId id, AttemptNumber attempt);
  void order_again(const std::string& reason, StopHow how, int signal);
  IncidentBuilder& open_incident(Instant now);
  void add_record(const JobNode& node, FailureRecord record, Instant now);
  void add_positions(const JobNode& node, const std::vector<WorkerPosition>& positions);
  void add_progress(JobNode& node, TrainingProgress told, Instant now);
  void is_gone(const JobNode& node);

  JobNodes& nodes_;
  JobHistory& history_;
  std::vector<Command>& commands_;
  State state_ = State::none;
  std::optional<AttemptNumber> number_;
  int world_nodes_ = 0;
  int world_size_ = 0;
  int working_ = 0;    ///< members in NodePhase::working
  int unstarted_ = 0;  ///< members that have not spawned their workers yet
  int stopping_ = 0;   ///< members in NodePhase::stopping
  int finished_ = 0;   ///< members that finished, also when lost since
  bool left_unasked_ = false;
  AttemptStory story_;
  AttemptStop stop_;
  std::optional<IncidentBuilder> incident_;
};

}  // namespace ddprun
