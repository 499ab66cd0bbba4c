// StepMeter: where the time of a training's steps goes, of each step and summed up from one line of
// progress to the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "trainer/metrics/step_record.h"

namespace ddp {

/// Sums of one rank, in seconds, since the last line of progress.
struct StepTimes {
  double data_s = 0;
  double forward_s = 0;
  double backward_s = 0;
  double sync_s = 0;  ///< waiting for the gradients of other ranks
  double update_s = 0;
  double snapshot_s = 0;
  double total_s = 0;
  std::int64_t steps = 0;
};

/// The parts of one step.
inline StepRecord record_of(const StepTimes& times) {
  StepRecord record;
  record.data_s = times.data_s;
  record.forward_s = times.forward_s;
  record.backward_s = times.backward_s;
  record.update_s = times.update_s;
  record.sync_s = times.sync_s;
  record.snapshot_s = times.snapshot_s;
  return record;
}

/// Of one step, without what this rank waited for.
inline double own_work_s(const StepTimes& times) {
  return times.data_s + times.forward_s + times.backward_s + times.update_s;
}

class StepMeter {
 public:
  using Clock = std::chrono::steady_clock;

  StepMeter() : start_(Clock::now()), step_start_(start_), last_(start_) {}

  /// The time since the last call of any of these was spent on `part`.
  void spent(double StepTimes::*part) {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    times_.*part += seconds;
    step_.*part += seconds;
    last_ = now;
  }
  /// That time belongs to no part, and to no step: a validation may take longer than many.
  void skip() {
    const auto now = Clock::now();
    start_ += now - last_;
    step_start_ += now - last_;
    last_ = now;
  }
  /// What this step took; a snapshot counts with the step that follows it. total_s is from the end
  /// of the step before.
  StepTimes step_done() {
    const auto now = Clock::now();
    step_.total_s = std::chrono::duration<double>(now - std::exchange(step_start_, now)).count();
    step_.steps = 1;
    ++times_.steps;
    return std::exchange(step_, {});
  }

  /// What was summed up; begins anew.
  StepTimes take() {
    const auto now = Clock::now();
    StepTimes taken = times_;
    taken.total_s = std::chrono::duration<double>(now - start_).count();
    times_ = {};
    start_ = last_ = now;
    return taken;
  }

 private:
  StepTimes times_;
  StepTimes step_;
  Clock::time_point start_;
  Clock::time_point step_start_;
  Clock::time_point last_;
};

}  // namespace ddp
