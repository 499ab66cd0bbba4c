// ConflictPause: how long to wait after a write that came too late, because somebody else had
// written meanwhile. The first is done anew at once: two nodes that start together meet once. After
// that the pause doubles, up to a bound, and a random part of it is left out, so that two that met
// do not go on to meet. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace ddprun {

class ConflictPause {
 public:
  /// `drawn`: at random, another one for each process.
  explicit ConflictPause(std::uint64_t drawn)
      : random_(static_cast<std::minstd_rand::result_type>(drawn)) {}

  /// A write came too late: so long before the next request.
  std::chrono::milliseconds next();
  /// A write was done.
  void reset() { conflicts_ = 0; }

 private:
  std::minstd_rand random_;
  int conflicts_ = 0;  ///< in a row
};

/// A healthy coordinator's own pause between two renewals: a Lease that refuses each write is not
/// asked more often than one that takes each.
inline constexpr std::chrono::milliseconds kConflictPauseMax{1'000};

}  // namespace ddprun
