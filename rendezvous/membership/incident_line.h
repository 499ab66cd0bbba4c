// IncidentLine: a failure as people are told of it when it happens: one line. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/snapshot_number.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

inline constexpr std::size_t kIncidentLineBytesMax = 1024;

/// What follows an incident.
struct Aftermath {
  /// Why the job ends, as a clause; none: it goes on.
  std::optional<std::string> end = {};
  AttemptNumber next{};  ///< when it goes on
  /// Of --max-restarts, when one was spent: the number of this one.
  std::optional<int> restart = {};
  int max_restarts = 0;
  std::chrono::nanoseconds pause{};
  int missing = 0;  ///< nodes that are waited for
  /// Of the newest snapshot that was told of.
  std::optional<SnapshotNumber> snapshot = {};
};

/// "rank 3 on node1 exited with code 1: ValueError: bad batch 17; attempt 1 begins (restart 1 of at
/// most 3), from epoch 40". Without control characters, at most kIncidentLineBytesMax.
std::string incident_line(const Incident& incident, const Aftermath& after);

}  // namespace ddprun
