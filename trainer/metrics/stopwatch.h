// Stopwatch: the times of the parts of a step, one after the other.
#pragma once

#include <chrono>
#include <utility>

namespace ddp {

class Stopwatch {
 public:
  /// Seconds since the last lap, or since it was made.
  double lap() {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace ddp
