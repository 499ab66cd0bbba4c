// StepMeter: where the time of a training's steps goes, summed up from one line of progress to the
// next.
#pragma once

#include <chrono>
#include <cstdint>

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

class StepMeter {
 public:
  using Clock = std::chrono::steady_clock;

  StepMeter() : start_(Clock::now()), last_(start_) {}

  /// The time since the last call of any of these was spent on `part`.
  void spent(double StepTimes::*part) {
    const auto now = Clock::now();
    times_.*part += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  /// That time belongs to no part.
  void skip() { last_ = Clock::now(); }
  void step_done() { ++times_.steps; }

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
  Clock::time_point start_;
  Clock::time_point last_;
};

/// Resident memory of this process now, in bytes; 0 where the kernel does not say.
std::int64_t resident_bytes();

}  // namespace ddp
