// Random: a small stream of pseudo-random numbers (splitmix64). Each actor of a simulation has one
// of its own, so that dropping one fault from a schedule does not change what the others draw.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace ddprun::sim {

using Duration = std::chrono::nanoseconds;

class Random {
 public:
  /// Streams of one seed differ by `stream`.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(seed * 0x9E3779B97F4A7C15U + stream * 0xD1B54A32D192ED03U + 1) {
    next();
  }

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  /// 0 .. n-1; n is small against 2^64, and 0 for n 0.
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
  int number_below(int n) { return static_cast<int>(below(static_cast<std::uint64_t>(n))); }
  /// 0 .. 1, 1 excluded.
  double fraction() { return static_cast<double>(next() >> 11U) * 0x1p-53; }
  bool chance(double probability) { return fraction() < probability; }
  /// 0 .. max, both included.
  Duration up_to(Duration max) {
    return Duration(static_cast<std::int64_t>(below(static_cast<std::uint64_t>(max.count()) + 1)));
  }
  Duration between(Duration min, Duration max) { return min + up_to(max - min); }
  /// Exponentially distributed, in units of its mean.
  double exponential() { return -std::log1p(-fraction()); }
  /// How many of so many expected ones there are (Poisson).
  int count_of(double expected) {
    int count = 0;
    for (double sum = exponential(); sum < expected; sum += exponential()) {
      ++count;
    }
    return count;
  }

 private:
  std::uint64_t state_;
};

}  // namespace ddprun::sim
