// JobRecord: the story of the job as it is told at its end: attempts, incidents with their
// downtime, training progress. It decides nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/failure.h"

namespace ddprun {

/// Incidents kept; the oldest go first (lost nodes and growth spend no budget, so their number has
/// no other bound, and the summary is sent to every node).
inline constexpr std::size_t kIncidentsMax = 100;

class JobRecord {
 public:
  /// A successor's: goes on where the coordinator before it was.
  void inherit(JobSummary so_far);
  /// An attempt was handed out. It follows the newest incident, if any.
  void assigned(Instant at, AttemptNumber attempt);
  /// All workers of all its nodes have been spawned: ends the downtime of that incident, unless
  /// progress tells of a later first step.
  void all_started(Instant at);
  /// What a node told of the current attempt. `leads`: it has group rank 0.
  void progress(const TrainingProgress& told, bool leads);
  /// The current attempt ended.
  void ended(Incident incident, Instant detected_at);

  /// The summary; restarts are the caller's to fill in.
  [[nodiscard]] JobSummary summary(Verdict verdict, std::string reason) const;
  /// For a successor: without a verdict, and without the evidence, which its nodes have printed.
  [[nodiscard]] JobSummary so_far() const;

 private:
  /// The incident before the current attempt.
  Incident* open_incident();
  void down_until(Instant at);

  std::vector<Incident> incidents_;
  int attempts_ = 0;
  Instant assigned_at_{};
  Instant detected_at_{};  ///< of the newest incident
  bool followed_ = false;  ///< an attempt was assigned after the newest incident
  TrainingProgress progress_;
};

}  // namespace ddprun
