// Ledger: the accounts of a job's time, on the coordinator's steady clock alone. What nodes tell
// comes as time since something that the coordinator saw too (an age, a time since the assignment),
// so that clocks of nodes are never compared. Pure; job_history.h keeps the story that these
// figures belong to.
//
//   happened ─detect─ detected ─stop─ stopped ─rendezvous─ assigned ─spawn─ started ─first step─
//
// Every moment is of one account: start-up, downtime of an incident, training that is done again,
// training that is not. When an incident ends an attempt, what was done since the newest snapshot
// is written off at once; should the next attempt resume from an older one, more follows, and from
// a newer one, whose worker died before it told of it, less. What
// nodes claim is brought within what can be: no first step before the assignment or after its
// report, no incident before the attempt got going.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/snapshot_number.h"
#include "rendezvous/membership/training_time.h"

namespace ddprun {

/// Snapshots that are remembered, the newest; who resumes from an older one is taken to have gone
/// back to the beginning.
inline constexpr std::size_t kTrainingPointsMax = 64;

/// When an incident happened, was known to the coordinator, and had all workers stopped.
struct IncidentInstants {
  Instant happened{};
  Instant detected{};
  Instant stopped{};
};

class Ledger {
 public:
  /// The job begins. `so_far`: a successor's, which were made up at `at`.
  void begin(Instant at, const Accounts& so_far = {});
  /// An attempt of that many nodes was handed out.
  void assigned(Instant at, int nodes);
  void all_started(Instant at);
  /// What a node told of the current attempt; may come often, and in any order. The time of its
  /// first step is to be passed on once for each node.
  void progress(const TrainingProgress& told, Instant at);
  /// An incident ended the current attempt (a successor's: the one that it took over). After this
  /// break_down() and lost() speak of the new incident.
  void ended(IncidentKind kind, IncidentInstants when);
  /// The current attempt was ordered to end, without an incident: no training from here on.
  void stopping(Instant at);
  /// The attempt, if any, ends and no other follows. `kept`: its work is done, snapshot or not.
  void closed(Instant at, bool kept);

  /// Of the newest incident, as far as it is known.
  [[nodiscard]] const BreakDown& break_down() const { return break_down_; }
  [[nodiscard]] const LostWork& lost() const { return lost_; }
  /// Of the incident before the newest: that an attempt was in vain is known once the next came.
  [[nodiscard]] const BreakDown& break_down_before() const { return before_; }
  /// All parts that the newest incident can have are known.
  [[nodiscard]] bool recovered() const;
  /// From the current attempt's assignment to its first step, once all nodes have told theirs.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> first_step_after() const;
  /// The newest snapshot that was told of.
  [[nodiscard]] const TrainingPoint& saved() const { return points_.back(); }
  /// From the begin of the job until then: a place in Accounts::wall.
  [[nodiscard]] std::chrono::nanoseconds wall_at(Instant at) const;
  /// Up to `now`; a running attempt counts as if all its work were kept.
  [[nodiscard]] Accounts accounts(Instant now) const;

 private:
  struct Attempt {
    Instant assigned{};
    std::optional<Instant> started = {};
    std::optional<Instant> first_step = {};  ///< of the slowest node that told
    std::optional<Instant> until = {};       ///< ordered to end without an incident
    std::optional<std::int64_t> steps = {};
    int nodes_to_step = 0;       ///< that have not told their first step
    bool resumed_known = false;  ///< where it went on

    /// From when on it trains.
    [[nodiscard]] std::optional<Instant> going(bool by_step) const;
    /// The last point that it is known to have got to.
    [[nodiscard]] Instant reached() const;
  };

  void stop_counting(Instant end);
  void go_back_to(std::size_t point);
  void undo(std::int64_t steps, std::chrono::nanoseconds time);
  void resumed_from(std::optional<SnapshotNumber> snapshot);
  void find_untold(SnapshotNumber snapshot, SnapshotNumber known, const TrainingPoint& undone);
  void remember(const TrainingPoint& point);
  void hear_saved(const TrainingProgress& told, Instant at);
  void note_in_vain(BreakDown& parts, Instant until) const;
  void refresh();

  Accounts sums_;                   ///< up to since_; the attempt that runs is not in them
  Instant since_{};                 ///< from when on nothing is accounted yet
  Instant began_{};                 ///< the job, on this clock
  bool waits_for_step_ = false;     ///< some worker has said that it tells its steps
  bool steps_known_ = true;         ///< false: of an attempt under another coordinator
  std::optional<Attempt> attempt_;  ///< none before the first and between two
  std::optional<IncidentInstants> incident_;
  BreakDown break_down_;
  BreakDown before_;
  LostWork lost_;
  std::deque<TrainingPoint> points_{TrainingPoint{}};  ///< the beginning, then the newest, in order
  std::optional<SnapshotNumber> went_on_from_;         ///< the last attempt that told
  TrainingPoint undone_;  ///< since then, of attempts whose beginning is known
};

}  // namespace ddprun
