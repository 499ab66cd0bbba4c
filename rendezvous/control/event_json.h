// EventJson: what happens to a job as lines of JSON, one for each event. docs/events.md is the
// schema; a test holds the two together. Pure: it looks at what goes into the state machine and
// what comes out, and never asks for the time.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/membership.h"
#include "rendezvous/membership/snapshot_number.h"

namespace ddprun {

/// Rises when a field changes its meaning or goes away; new fields and events do not count.
inline constexpr int kEventSchema = 1;

class EventJson {
 public:
  using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
  struct Job {
    std::string job_id;
    std::string node;  ///< where this coordinator runs
    int min_nodes = 1;
    int max_nodes = 1;
    int max_restarts = 0;
    /// Of a successor: what became of the coordinator before, as a clause.
    std::optional<std::string> succeeds = {};
  };

  EventJson(Job job, const Membership& membership);

  /// All functions give whole lines, without a newline. This one once, before all others.
  std::vector<std::string> begin(WallTime wall, Instant now, const Membership& membership);
  /// After each Membership::apply, with what went in and what came out.
  std::vector<std::string> observe(WallTime wall, Instant now, const Event& event,
                                   const std::vector<Command>& commands,
                                   const Membership& membership);
  [[nodiscard]] std::string ledger(WallTime wall, Instant now, const Membership& membership) const;
  /// This coordinator gives up: another one may go on.
  [[nodiscard]] std::string resigned(WallTime wall, const Membership& membership,
                                     const std::string& why) const;

  /// For a log, when the last call told that an incident is over: one line about it.
  [[nodiscard]] const std::string& for_people() const { return for_people_; }

 private:
  struct Node {
    std::string host;
    std::string address;
    bool witness = false;
    bool contends = false;  ///< for a rank that is taken
  };
  struct Lines;

  void on(Lines& lines, const NodeJoined& event, const std::vector<Command>& commands);
  static void on(Lines& lines, const StrangerTurnedAway& event, const std::vector<Command>&);
  void on(Lines& lines, const NodeLost& event, const std::vector<Command>& commands);
  void on(Lines& lines, const WorkerFailed& event, const std::vector<Command>&);
  void on(Lines& lines, const WorkersStopped& event, const std::vector<Command>&);
  void on(Lines& lines, const StopRequested& event, const std::vector<Command>&);
  /// Others are told by what follows from them.
  template <class Other>
  static void on(Lines&, const Other&, const std::vector<Command>&) {}

  void add_failure(Lines& lines, NodeId id, AttemptNumber attempt, const FailureRecord& record);
  void on_command(Lines& lines, const Command& command, const Event& event);
  void on_assigned(Lines& lines, AttemptNumber attempt, const std::vector<Command>& commands);
  void on_progress(Lines& lines);
  void on_incidents(Lines& lines, bool over);
  void close_incident(Lines& lines, int which);
  void on_over(Lines& lines, const JobSummary& summary);
  void add_ledger(Lines& lines) const;

  Job job_;
  std::map<NodeId, Node> nodes_;
  std::map<NodeId, NodeId> contenders_;   ///< by the node that has the rank that they wait for
  std::optional<AttemptNumber> attempt_;  ///< as of the event before
  std::optional<Instant> assigned_at_;
  bool started_told_ = false;
  bool first_step_told_ = false;
  std::set<int> failed_ranks_;  ///< of the current attempt, told
  int incidents_told_ = 0;
  int incidents_closed_ = 0;
  bool closed_with_step_ = false;  ///< the newest, when it was told to be over
  std::optional<SnapshotNumber> saved_;
  bool over_ = false;
  std::string for_people_;
};

}  // namespace ddprun
