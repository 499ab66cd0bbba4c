// SnapshotNumber: the place in the training at which a snapshot was saved, in the unit by which the
// workers number their snapshots. A trainer that saves within epochs counts optimizer steps: two
// snapshots of one epoch would bear the same number otherwise, and the newer one would be no
// progress.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// Numbers are never reused: they are sent.
enum class SnapshotUnit : std::uint8_t { epoch, step };
inline constexpr int kSnapshotUnitMax = static_cast<int>(SnapshotUnit::step);

/// A later snapshot of a training is the greater one. All of one training have one unit: a worker
/// tells of its snapshots by steps or by epochs for as long as it runs.
struct SnapshotNumber {
  SnapshotUnit unit = SnapshotUnit::epoch;
  std::int64_t number = 0;  ///< the last finished epoch, from 0; or the optimizer steps done

  static constexpr SnapshotNumber epoch(std::int64_t n) { return {SnapshotUnit::epoch, n}; }
  static constexpr SnapshotNumber step(std::int64_t n) { return {SnapshotUnit::step, n}; }

  friend auto operator<=>(const SnapshotNumber&, const SnapshotNumber&) = default;
};

/// The number of a snapshot that has this unit; else nothing.
constexpr std::optional<std::int64_t> number_in(SnapshotUnit unit,
                                                std::optional<SnapshotNumber> at) {
  return at && at->unit == unit ? std::optional(at->number) : std::nullopt;
}

/// "epoch 40", "step 1200".
inline std::string to_text(SnapshotNumber at) {
  return (at.unit == SnapshotUnit::step ? "step " : "epoch ") + std::to_string(at.number);
}

}  // namespace ddprun
