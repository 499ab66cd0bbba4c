// RestartPolicy: what follows a failure: another attempt at once, one after a pause, or the end of
// the job. One for the whole job, held by its coordinator. Pure.
//
// In order: a worker that asked not to be started again; the fault table (--on), the most special
// class first; the budget (--max-restarts, --restart-window); attempts that make no progress. A
// lost node and growth cost nothing, unless the table says otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/restart_budget.h"
#include "rendezvous/membership/snapshot_number.h"

namespace ddprun {

/// Classes of faults, from the most special one; a fault is of the first that has a rule.
enum class FaultClass : std::uint8_t {
  hang,       ///< it kept the others waiting for longer than --hang-timeout
  oom,        ///< the kernel killed it for want of memory
  exit_code,  ///< exited with FaultRule::value
  signal,     ///< killed by the signal FaultRule::value
  start,      ///< ended before its first step; only where workers tell their steps
  any_exit,   ///< exited with any code
  any_signal,
  node_lost,
};
enum class FaultAction : std::uint8_t { restart, free, fail };

struct FaultRule {
  FaultClass kind = FaultClass::any_exit;
  int value = 0;
  FaultAction action = FaultAction::restart;
  std::string text;  ///< as the user wrote it, for reasons

  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};

struct RestartWindow {
  int restarts = 0;
  std::chrono::nanoseconds span{};

  friend bool operator==(const RestartWindow&, const RestartWindow&) = default;
};

struct RestartRules {
  int max_restarts = 0;
  std::optional<RestartWindow> window = {};
  std::vector<FaultRule> on_fault = {};
  /// Attempts in a row without progress after which the job ends; 0: never.
  int no_progress_max = 3;
};

/// Pauses before an attempt that follows others which ended before their first step: none after the
/// first of them, then this, and twice as long each time.
inline constexpr std::chrono::seconds kBackoffFirst{1};
inline constexpr std::chrono::seconds kBackoffMax{60};
/// Workers that tell no steps, in an attempt that --on makes free: one that failed within this
/// counts as one before its first step. Nothing else would end a program that fails at its start.
inline constexpr std::chrono::seconds kEarlyFailure{10};

/// What the workers told of the attempt that ended.
struct AttemptStory {
  bool told = false;  ///< any worker uses the worker runtime
  bool stepped = false;
  std::optional<std::int64_t> steps;    ///< made in this attempt
  std::optional<SnapshotNumber> saved;  ///< the newest snapshot
};

class RestartPolicy {
 public:
  explicit RestartPolicy(RestartRules rules);
  /// Goes on where another coordinator's was: `state` was true at `told_at`.
  void resume(int used, const RestartState& state, Instant told_at);

  struct Decision {
    bool spent = false;
    std::chrono::nanoseconds pause{};
    /// The job ends: why, as a clause to follow the incident's reason.
    std::optional<std::string> end;
  };
  /// `incident` as built; `by_worker`: a worker caused it (IncidentBuilder::spends_restart).
  Decision decide(const Incident& incident, bool by_worker, const AttemptStory& story, Instant now);

  [[nodiscard]] const RestartBudget& budget() const { return budget_; }
  [[nodiscard]] RestartState state(Instant now) const;

 private:
  [[nodiscard]] const FaultRule* rule_for(const FailureRecord& cause,
                                          const AttemptStory& story) const;
  [[nodiscard]] const FaultRule* rule_for_lost_node() const;
  /// Why there is no restart left; nothing while there is one.
  std::optional<std::string> why_spent(Instant now);
  void judge_progress(const AttemptStory& story, Decision& decision);
  void note_early_end(bool early, Decision& decision);

  RestartRules rules_;
  RestartBudget budget_;
  std::deque<Instant> spent_at_;       ///< within the window
  int before_first_step_ = 0;          ///< attempts in a row
  std::optional<Instant> went_on_at_;  ///< after the newest failure that was free
  int without_progress_ = 0;           ///< attempts in a row
  std::optional<SnapshotNumber> best_saved_;
  std::int64_t best_steps_ = 0;  ///< of one attempt, since the last newer snapshot
};

}  // namespace ddprun
