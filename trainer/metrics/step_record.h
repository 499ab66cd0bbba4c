// What a trainer tells of a step and of a validation. Plain values; docs/metrics.md has the fields.
#pragma once

#include <cstdint>
#include <optional>

namespace ddp {

/// One optimizer step of this rank.
struct StepRecord {
  std::int64_t step = 0;  ///< optimizer steps of the whole run, this one included: from 1
  std::int64_t epoch = 0;
  double loss = 0;
  double learning_rate = 0;
  /// Of the whole job. The unit (tokens, samples) is an option of TrainingLog.
  double units_per_second = 0;
  /// Seconds of this step on this rank; 0 for what it did not do.
  double data_s = 0;
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  double sync_s = 0;
  double snapshot_s = 0;
  /// Of this rank: resident memory on the CPU, allocated memory on a GPU.
  std::int64_t memory_bytes = 0;
};

/// One pass over samples that are not trained on.
struct ValidationRecord {
  std::int64_t step = 0;  ///< steps done before it
  std::int64_t epoch = 0;
  double loss = 0;
  std::optional<double> accuracy;  ///< share of samples, 0 to 1
  double seconds = 0;
};

}  // namespace ddp
