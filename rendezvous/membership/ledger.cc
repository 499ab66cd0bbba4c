#include "rendezvous/membership/ledger.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

using Time = std::chrono::nanoseconds;

/// Cut here, once, and not where figures are shown: differences of cut instants add up.
Instant whole(Instant at) {
  return std::chrono::floor<std::chrono::microseconds>(at);
}

/// Has to be the wall time at any moment; accounts() checks that.
Time whole_of(const TimeTrack& track) {
  return track.startup + track.productive + track.replayed + track.down();
}

/// From `since` to `end` of which an attempt trained from `going` on, if it did.
void count(TimeTrack& track, std::optional<IncidentKind> down_since, Instant since,
           std::optional<Instant> going, Instant end) {
  const Instant begin = std::clamp(going.value_or(end), since, end);
  (down_since ? track.downtime[static_cast<std::size_t>(*down_since)] : track.startup) +=
      begin - since;
  track.productive += end - begin;
}

}  // namespace

/// A first step that is told before all workers have started counts from their start: one node's
/// step does not mean that all have their workers.
std::optional<Instant> Ledger::Attempt::going(bool by_step) const {
  if (!started || !by_step) {
    return started;
  }
  return first_step ? std::optional(std::max(*first_step, *started)) : std::nullopt;
}

Instant Ledger::Attempt::reached() const {
  return std::max({assigned, started.value_or(assigned), first_step.value_or(assigned)});
}

/// The attempt of the coordinator before counts as one that trains since `at`: the incident of the
/// takeover, which is dated to the loss, ends it.
void Ledger::begin(Instant at, const Accounts& so_far) {
  since_ = began_ = at = whole(at);
  if (whole_of(so_far.by_start) != so_far.wall || whole_of(so_far.by_step) != so_far.wall) {
    return;  // another ddprun's: better none than wrong ones
  }
  sums_ = so_far;
  began_ = at - so_far.wall;
  waits_for_step_ = so_far.steps_told;
  if (so_far.saved.snapshot) {
    points_.push_back(so_far.saved);
  }
  if (so_far.ran_by_start) {
    // It may have done more than is told here, and saved it, too.
    attempt_ = Attempt{};
    attempt_->assigned = at;
    attempt_->started = at;
    attempt_->first_step = so_far.ran_by_step ? std::optional(at) : std::nullopt;
    attempt_->resumed_known = true;
    steps_known_ = false;
  }
}

/// Time since the incident was downtime, and goes on being that until the attempt gets going.
void Ledger::assigned(Instant at, int nodes) {
  DDP_CHECK(!attempt_, "one attempt at a time");
  DDP_CHECK(nodes >= 1, "an attempt has nodes");
  attempt_ = Attempt{};
  attempt_->assigned = whole(at);
  attempt_->nodes_to_step = nodes;
  steps_known_ = true;
  refresh();
}

void Ledger::all_started(Instant at) {
  DDP_CHECK(attempt_ && whole(at) >= attempt_->assigned, "workers start after their assignment");
  attempt_->started = whole(at);
  refresh();
}

/// Nodes tell times since their assignment, which they had after the coordinator gave it. So their
/// word is late by the way of a message, and is cut to what can be.
void Ledger::progress(const TrainingProgress& told, Instant at) {
  DDP_CHECK(attempt_.has_value(), "progress is told of an attempt");
  Attempt& attempt = *attempt_;
  DDP_CHECK(whole(at) >= attempt.assigned, "progress is told after the assignment");
  waits_for_step_ = waits_for_step_ || told.told;
  if (told.resumed_from || told.first_step_after) {
    resumed_from(told.resumed_from);
  }
  if (told.first_step_after) {
    const Time after = std::clamp(*told.first_step_after, Time(0), whole(at) - attempt.assigned);
    sums_.steps_told = true;
    attempt.first_step =
        std::max(attempt.first_step.value_or(attempt.assigned), attempt.assigned + whole(after));
    --attempt.nodes_to_step;
  }
  if (told.steps && *told.steps >= 0) {
    attempt.steps = std::max(attempt.steps.value_or(0), *told.steps);
  }
  hear_saved(told, at);
  refresh();
}

/// Only steps and time up to the snapshot are safe. Its place is counted from the beginning of the
/// training, so that it outlives the attempt.
void Ledger::hear_saved(const TrainingProgress& told, Instant at) {
  if (!told.saved || !told.saved_after || !told.steps_at_save ||
      (points_.back().snapshot && *told.saved <= *points_.back().snapshot)) {
    return;  // no news: every rank tells of the same snapshot
  }
  const Instant limit = std::max(whole(at), attempt_->assigned);
  const Instant saved_at =
      std::clamp(attempt_->assigned + whole(*told.saved_after), attempt_->assigned, limit);
  const Instant going = attempt_->going(true).value_or(saved_at);
  remember({*told.saved, sums_.steps + std::max<std::int64_t>(*told.steps_at_save, 0),
            sums_.by_step.productive + std::max(saved_at - going, Time(0))});
}

void Ledger::remember(const TrainingPoint& point) {
  points_.push_back(point);
  if (points_.size() > kTrainingPointsMax) {
    // The beginning stays: who resumes from a snapshot that is forgotten went back to there.
    points_.erase(points_.begin() + 1);
  }
}

/// The attempt went on from that snapshot. None: it began anew.
void Ledger::resumed_from(std::optional<SnapshotNumber> snapshot) {
  if (std::exchange(attempt_->resumed_known, true)) {
    return;
  }
  DDP_CHECK(!points_.front().snapshot, "the first point is the beginning of the training");
  const TrainingPoint undone = std::exchange(undone_, {});
  const auto known = std::max(points_.back().snapshot, std::exchange(went_on_from_, snapshot));
  if (snapshot > known) {
    find_untold(*snapshot, known.value_or(SnapshotNumber{snapshot->unit, 0}), undone);
    return;
  }
  std::size_t point = 0;
  for (std::size_t i = 1; snapshot && i < points_.size() && *points_[i].snapshot <= *snapshot;
       ++i) {
    point = i;
  }
  go_back_to(point);
}

/// A worker died between saving that snapshot and telling of it, as a rule in the step that it
/// saved. Numbers that are steps say how many it holds; epochs do not, and all of it counts.
void Ledger::find_untold(SnapshotNumber snapshot, SnapshotNumber known,
                         const TrainingPoint& undone) {
  if (undone.steps == 0) {
    return;  // the first attempt: another job saved it
  }
  const bool by_step = snapshot.unit == SnapshotUnit::step && known.unit == snapshot.unit;
  const std::int64_t steps =
      by_step ? std::clamp<std::int64_t>(snapshot.number - known.number, 0, undone.steps)
              : undone.steps;
  const double share = static_cast<double>(steps) / static_cast<double>(undone.steps);
  const Time time = steps == undone.steps
                        ? undone.time
                        : std::chrono::floor<std::chrono::microseconds>(undone.time * share);
  undo(-steps, -time);
  remember({snapshot, sums_.steps, sums_.by_step.productive});
}

/// What was done after that point is done again.
void Ledger::go_back_to(std::size_t index) {
  DDP_CHECK(index < points_.size(), "it goes back to a point that is known");
  points_.resize(index + 1);
  TrainingPoint& point = points_.back();
  // An incident that is dated back may have happened before what was told of the attempt.
  point.time = std::min(point.time, sums_.by_step.productive);
  point.steps = std::min(point.steps, sums_.steps);
  const Time time = sums_.by_step.productive - point.time;
  const std::int64_t steps = sums_.steps - point.steps;
  DDP_CHECK(time >= Time(0) && steps >= 0, "no more is undone than was done");
  undo(steps, time);
}

/// Moves work to what is done again, or back.
void Ledger::undo(std::int64_t steps, Time time) {
  sums_.by_step.productive -= time;
  sums_.by_step.replayed += time;
  sums_.steps -= steps;
  sums_.replayed_steps += steps;
  if (lost_.time) {
    lost_.time = std::max(*lost_.time + time, Time(0));
  }
  if (lost_.steps) {
    lost_.steps = std::max<std::int64_t>(*lost_.steps + steps, 0);
  }
}

/// Fills in what the current attempt tells of the incident before it.
void Ledger::refresh() {
  if (!incident_ || !attempt_) {
    return;
  }
  break_down_.rendezvous = attempt_->assigned - incident_->stopped;
  if (!attempt_->started) {
    return;  // a first step of one node does not mean that all have their workers
  }
  break_down_.spawn = *attempt_->started - attempt_->assigned;
  if (const auto going = attempt_->going(true)) {
    break_down_.first_step = *going - *attempt_->started;
  }
}

/// The attempt after the incident ends at `until`: what it did not get to was waited for in vain.
void Ledger::note_in_vain(BreakDown& parts, Instant until) const {
  if (!incident_ || !attempt_) {
    return;
  }
  if (!attempt_->started) {
    parts.spawn = until - attempt_->assigned;
    parts.in_vain = true;
  } else if (sums_.steps_told && !attempt_->first_step) {
    parts.first_step = until - *attempt_->started;
    parts.in_vain = true;
  }
}

/// Both tracks are kept, for whether workers tell steps at all may be known late in the job.
void Ledger::stop_counting(Instant end) {
  DDP_CHECK(end >= since_, "no moment is counted twice");
  const Attempt none;
  const Attempt& attempt = attempt_ ? *attempt_ : none;
  count(sums_.by_start, sums_.down_since, since_, attempt.going(false), end);
  count(sums_.by_step, sums_.down_since, since_, attempt.going(true), end);
  sums_.steps += attempt.steps.value_or(0);
  since_ = end;
}

void Ledger::ended(IncidentKind kind, IncidentInstants when) {
  DDP_CHECK(when.happened <= when.detected && when.detected <= when.stopped, "in this order");
  when = {whole(when.happened), whole(when.detected), whole(when.stopped)};
  // A silence may reach back to before the attempt got so far: no time is counted twice.
  const Instant earliest = std::max(since_, attempt_ ? attempt_->reached() : since_);
  when.happened = std::max(when.happened, earliest);
  when.detected = std::max(when.detected, when.happened);
  when.stopped = std::max(when.stopped, when.detected);
  before_ = break_down_;
  note_in_vain(before_, when.happened);
  stop_counting(when.happened);
  lost_ = {};
  if (sums_.steps_told) {
    lost_.time = Time(0);
    lost_.steps = steps_known_ ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  attempt_.reset();
  const TrainingPoint before{{}, sums_.steps, sums_.by_step.productive};
  go_back_to(points_.size() - 1);
  if (steps_known_) {
    undone_.steps += before.steps - sums_.steps;
    undone_.time += before.time - sums_.by_step.productive;
  }
  sums_.down_since = kind;
  incident_ = when;
  break_down_ = BreakDown{when.detected - when.happened, when.stopped - when.detected};
}

/// From an order to end the job to its end is downtime (docs/ledger.md), whatever workers still do.
void Ledger::stopping(Instant at) {
  if (attempt_) {
    attempt_->until = whole(at);
  }
}

/// An order to end the job is no incident: the time since then is of an account of its own.
void Ledger::closed(Instant at, bool kept) {
  if (attempt_) {
    const Instant until = std::max(attempt_->until.value_or(whole(at)), attempt_->reached());
    note_in_vain(break_down_, until);
    stop_counting(until);
    attempt_.reset();
    sums_.down_since = IncidentKind::ending;
    if (!kept) {
      const LostWork of_incident = std::exchange(lost_, {});
      go_back_to(points_.size() - 1);
      lost_ = of_incident;
    }
  }
  stop_counting(std::max(whole(at), since_));
}

bool Ledger::recovered() const {
  return incident_ && attempt_ && attempt_->started &&
         (!waits_for_step_ || attempt_->nodes_to_step <= 0);
}

std::optional<Time> Ledger::first_step_after() const {
  if (!attempt_ || attempt_->nodes_to_step > 0 || !attempt_->going(true)) {
    return std::nullopt;
  }
  return *attempt_->going(true) - attempt_->assigned;
}

/// A successor dates the loss of the coordinator before, which its own story may begin after.
std::chrono::nanoseconds Ledger::wall_at(Instant at) const {
  return std::max(whole(at) - began_, std::chrono::nanoseconds{});
}

/// Computed on a copy: the attempt that runs counts up to now, and goes on.
Accounts Ledger::accounts(Instant now) const {
  Ledger so_far = *this;
  now = std::max(whole(now), since_);
  so_far.stop_counting(now);
  Accounts accounts = so_far.sums_;
  accounts.wall = now - began_;
  accounts.ran_by_start = attempt_ && attempt_->going(false);
  accounts.ran_by_step = attempt_ && attempt_->going(true);
  accounts.saved = points_.back();
  DDP_CHECK(
      whole_of(accounts.by_start) == accounts.wall && whole_of(accounts.by_step) == accounts.wall,
      "every moment is of one account");
  return accounts;
}

}  // namespace ddprun
