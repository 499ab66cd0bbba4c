// The fields of what is told of a job's past: its training, its time, its restarts. For
// message_codec.cc; an archive is a Writer or a Reader (wire_archive.h).
#pragma once

#include <limits>

#include "rendezvous/membership/failure.h"
#include "rendezvous/protocol/wire_values.h"

namespace ddprun {

/// `Value` is const when written. One overload per struct would be twice the text: the type is
/// told by the first parameter's tag.
template <class T>
struct Tag {};

template <class A, class V>
void fields(Tag<TrainingProgress>, A& a, V& v) {
  a.optional(v.resumed_from, kSnapshotNumber);
  a.optional(v.last_epoch, kEpoch);
  a.optional(v.loss, [](auto& ar, auto& loss) { ar.real(loss); });
  a.optional(v.first_step_after, kNanoseconds);
  a.boolean(v.told);
  a.optional(v.steps, kEpoch);
  a.optional(v.saved, kSnapshotNumber);
  a.boolean(v.left);
  a.boolean(v.complete);
  a.optional(v.saved_after, kNanoseconds);
  a.optional(v.steps_at_save, kEpoch);
}

template <class A, class V>
void fields(Tag<BreakDown>, A& a, V& v) {
  kNanoseconds(a, v.detect);
  kNanoseconds(a, v.stop);
  a.optional(v.rendezvous, kNanoseconds);
  a.optional(v.spawn, kNanoseconds);
  a.optional(v.first_step, kNanoseconds);
  a.boolean(v.in_vain);
}

template <class A, class V>
void fields(Tag<TimeTrack>, A& a, V& v) {
  kNanoseconds(a, v.startup);
  kNanoseconds(a, v.productive);
  kNanoseconds(a, v.replayed);
  for (auto& one : v.downtime) {
    kNanoseconds(a, one);
  }
}

constexpr int kIncidentKindMax = static_cast<int>(kIncidentKinds) - 1;

template <class A, class V>
void fields(Tag<Accounts>, A& a, V& v) {
  kNanoseconds(a, v.wall);
  fields(Tag<TimeTrack>{}, a, v.by_start);
  fields(Tag<TimeTrack>{}, a, v.by_step);
  a.boolean(v.steps_told);
  kEpoch(a, v.steps);
  kEpoch(a, v.replayed_steps);
  a.boolean(v.ran_by_start);
  a.boolean(v.ran_by_step);
  a.optional(v.down_since, [](auto& ar, auto& kind) { enumeration(ar, kind, kIncidentKindMax); });
  a.optional(v.saved.snapshot, kSnapshotNumber);
  kEpoch(a, v.saved.steps);
  kNanoseconds(a, v.saved.time);
}

template <class A, class V>
void fields(Tag<RestartState>, A& a, V& v) {
  a.list(v.spent_ago, kRestartsToldMax, kNanoseconds);
  a.integer(v.before_first_step, 0, kIntMax / 2);
  a.integer(v.without_progress, 0, kIntMax / 2);
  a.optional(v.best_saved, kSnapshotNumber);
  kEpoch(a, v.best_steps);
}

}  // namespace ddprun
