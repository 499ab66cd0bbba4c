// World: the nodes, ranks and sizes of one attempt, as one node is told them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/membership/snapshot_number.h"

namespace ddprun {

/// Names a node within a job, from its first hello to its loss; never reused.
enum class NodeId : std::uint64_t {};
/// One life of the worker group, from 0, job-wide, never reused.
enum class AttemptNumber : std::uint32_t {};

constexpr std::uint64_t number(NodeId id) {
  return static_cast<std::uint64_t>(id);
}
constexpr std::uint32_t number(AttemptNumber a) {
  return static_cast<std::uint32_t>(a);
}

/// What one node is assigned for one attempt: O(1) bytes whatever the size of the job. Ranks of
/// this node are base_rank .. base_rank + local_world_size - 1.
struct World {
  AttemptNumber attempt{};
  int group_rank = 0;
  int group_world_size = 1;
  int base_rank = 0;
  int world_size = 1;
  int role_base_rank = 0;
  int role_world_size = 1;
  /// Restarts spent so far, of the job's budget.
  int restarts_used = 0;
  /// The store of this attempt; the shell fills it in, membership leaves it empty.
  std::string master_addr;
  std::uint16_t master_port = 0;

  friend bool operator==(const World&, const World&) = default;
};

/// What the workers of one node told about their training (contract/progress_channel.h), read at
/// the end of an attempt. Empty where the worker does not use the worker runtime.
struct TrainingProgress {
  std::optional<SnapshotNumber> resumed_from;  ///< snapshot that the attempt resumed from
  std::optional<std::int64_t> last_epoch;      ///< last finished epoch
  std::optional<double> loss;                  ///< last loss
  /// From the arrival of the assignment at this node to the first optimizer step here.
  std::optional<std::chrono::nanoseconds> first_step_after;
  /// A worker of this node uses the worker runtime.
  bool told = false;
  std::optional<std::int64_t> steps = {};    ///< optimizer steps made in this attempt
  std::optional<SnapshotNumber> saved = {};  ///< the newest snapshot
  /// Its workers ended because they were ordered to save and leave, or were signalled so.
  bool left = false;
  /// All its workers ended with 0, and nobody had told them to end.
  bool complete = false;
  /// From the arrival of the assignment to when it was saved, and the steps made by then.
  std::optional<std::chrono::nanoseconds> saved_after = {};
  std::optional<std::int64_t> steps_at_save = {};

  friend bool operator==(const TrainingProgress&, const TrainingProgress&) = default;
};

}  // namespace ddprun
