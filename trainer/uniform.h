// Uniform: reproducible random numbers in [0, 1), the same on every machine. splitmix64 (Steele,
// Lea, Flood 2014) of a counter; the standard's distributions differ between libraries.
#pragma once

#include <cstdint>

namespace ddp {

class Uniform {
 public:
  explicit Uniform(std::uint64_t seed) : state_(seed) {}

  /// 24 random bits: every value is exact in a float.
  float next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    z ^= z >> 31U;
    return static_cast<float>(z >> 40U) * 0x1p-24F;
  }

 private:
  std::uint64_t state_;
};

}  // namespace ddp
