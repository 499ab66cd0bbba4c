// Where the time of a job went, as plain values: BreakDown and LostWork of one incident, Accounts
// of the whole job. ledger.h computes them, docs/ledger.md tells people what they mean.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>

#include "rendezvous/membership/snapshot_number.h"

namespace ddprun {

/// What an incident began with; downtime is accounted by this.
enum class IncidentKind : std::uint8_t {
  worker_failed,
  node_lost,
  coordinator_lost,
  node_joined,  ///< the world was stopped to grow
  ending,       ///< no incident: the job was being ended
  node_left,    ///< in order, as it was asked to
};
inline constexpr std::size_t kIncidentKinds = 6;

/// The parts follow each other without a gap, all on the coordinator's steady clock; their sum is
/// the downtime. Whole microseconds, so that sums of what is shown stay sums.
struct BreakDown {
  std::chrono::nanoseconds detect{};  ///< from when it happened to when the coordinator knew
  std::chrono::nanoseconds stop{};    ///< until no worker of the attempt was left
  // None where no attempt followed, or not yet.
  std::optional<std::chrono::nanoseconds> rendezvous = {};  ///< until the next one was assigned
  std::optional<std::chrono::nanoseconds> spawn = {};       ///< until all its workers had started
  std::optional<std::chrono::nanoseconds> first_step = {};  ///< until its first step, where told
  /// The next attempt ended too before it got so far: its last part is the time waited in vain.
  bool in_vain = false;

  [[nodiscard]] std::chrono::nanoseconds sum() const {
    constexpr std::chrono::nanoseconds kNone{};
    return detect + stop + rendezvous.value_or(kNone) + spawn.value_or(kNone) +
           first_step.value_or(kNone);
  }
  friend bool operator==(const BreakDown&, const BreakDown&) = default;
};

/// Work that an incident undid: done since the snapshot from which the next attempt resumed (the
/// newest that was told, as long as none did), and to be done again.
struct LostWork {
  std::optional<std::int64_t> steps = {};  ///< none: workers tell no steps
  std::optional<std::chrono::nanoseconds> time = {};
  friend bool operator==(const LostWork&, const LostWork&) = default;
};

/// A way to divide a job's time. All of them together are its wall time.
struct TimeTrack {
  std::chrono::nanoseconds startup{};     ///< until the first attempt got going
  std::chrono::nanoseconds productive{};  ///< training that was not done again
  std::chrono::nanoseconds replayed{};    ///< training that was, or will be, done again
  std::array<std::chrono::nanoseconds, kIncidentKinds> downtime{};  ///< by IncidentKind

  [[nodiscard]] std::chrono::nanoseconds down() const {
    return std::accumulate(downtime.begin(), downtime.end(), std::chrono::nanoseconds{});
  }
  friend bool operator==(const TimeTrack&, const TimeTrack&) = default;
};

/// A point of the training, counted from its beginning without what was done again.
struct TrainingPoint {
  std::optional<SnapshotNumber> snapshot = {};  ///< none: the beginning
  std::int64_t steps = 0;
  std::chrono::nanoseconds time{};
  friend bool operator==(const TrainingPoint&, const TrainingPoint&) = default;
};

/// All of a job up to some moment. Also what a successor goes on with.
struct Accounts {
  std::chrono::nanoseconds wall{};  ///< since the first coordinator began to gather
  /// Training counts from when all workers were started: all that is known where they tell nothing.
  TimeTrack by_start = {};
  /// Training counts from the first optimizer step.
  TimeTrack by_step = {};
  bool steps_told = false;  ///< some worker of the job told of a step: by_step holds
  std::int64_t steps = 0;   ///< without those done again
  std::int64_t replayed_steps = 0;
  // At that moment:
  bool ran_by_start = false;  ///< an attempt ran
  bool ran_by_step = false;
  std::optional<IncidentKind> down_since = {};  ///< none: before the first incident
  TrainingPoint saved = {};                     ///< the newest snapshot

  [[nodiscard]] const TimeTrack& track() const { return steps_told ? by_step : by_start; }
  /// The effective training time ratio, 0 to 1; none before any time has passed.
  [[nodiscard]] std::optional<double> ratio() const {
    if (wall <= std::chrono::nanoseconds{}) {
      return std::nullopt;
    }
    return static_cast<double>(track().productive.count()) / static_cast<double>(wall.count());
  }
  friend bool operator==(const Accounts&, const Accounts&) = default;
};

}  // namespace ddprun
