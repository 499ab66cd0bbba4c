// JobHistory: the story of the job as it is told at its end: attempts, incidents with their
// downtime, training progress, and the accounts of its time (ledger.h). It decides nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/ledger.h"

namespace ddprun {

/// Incidents kept; the oldest go first (lost nodes and growth spend no budget, so their number has
/// no other bound, and the summary is sent to every node).
inline constexpr std::size_t kIncidentsMax = 100;

class JobHistory {
 public:
  /// A new job's begins to gather.
  void begin(Instant at) { ledger_.begin(at); }
  /// A successor's: goes on where the coordinator before it was. `so_far` was true at `at`.
  void inherit(JobSummary so_far, Instant at);
  /// An attempt was handed out to that many nodes. It follows the newest incident, if any.
  void assigned(Instant at, AttemptNumber attempt, int nodes);
  /// All workers of all its nodes have been spawned: ends the downtime of that incident, unless
  /// progress tells of a later first step.
  void all_started(Instant at);
  /// What a node told of the current attempt. `leads`: it has group rank 0. The time of the first
  /// step is to be passed on once for each node.
  void progress(const TrainingProgress& told, bool leads, Instant at);
  /// The current attempt ended.
  void ended(Incident incident, IncidentInstants when);
  /// The current attempt was ordered to end, without an incident.
  void stopping(Instant at) { ledger_.stopping(at); }
  /// The job is over.
  void closed(Instant at, Verdict verdict);

  /// The summary; restarts are the caller's to fill in.
  [[nodiscard]] JobSummary summary(Verdict verdict, std::string reason, Instant now) const;
  /// For a successor: without a verdict, and without the evidence, which its nodes have printed.
  [[nodiscard]] JobSummary so_far(Instant now) const;

  [[nodiscard]] const std::vector<Incident>& incidents() const { return incidents_; }
  /// Of the whole job, also those not kept any more.
  [[nodiscard]] int incidents_count() const {
    return forgotten_ + static_cast<int>(incidents_.size());
  }
  [[nodiscard]] int attempts() const { return attempts_; }
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }

 private:
  void refresh();

  Ledger ledger_;
  std::vector<Incident> incidents_;
  int forgotten_ = 0;  ///< incidents beyond kIncidentsMax
  int attempts_ = 0;
  bool followed_ = false;  ///< an attempt was assigned after the newest incident
  TrainingProgress progress_;
};

}  // namespace ddprun
