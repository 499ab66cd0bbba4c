// What the tests of layers share: random arrays, and the levels of x86-64 that this machine runs.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "trainer/layers/layers.h"
#include "trainer/uniform.h"

namespace ddp_test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
/// Aligned to a cache line, as the attention's scratch memory must be.
struct alignas(64) Line {
  float floats[16];
};

/// Uniform in [-1, 1), the same in every run.
inline Floats random_floats(std::size_t count, std::uint64_t seed) {
  ddp::Uniform random(seed);
  Floats values(count);
  for (float& value : values) {
    value = 2 * random.next() - 1;
  }
  return values;
}

inline Doubles in_doubles(const Floats& values) {
  return {values.begin(), values.end()};
}

/// A step of AdamW with numbers like those of a training, on arrays of `count`.
inline ddp::AdamWUpdate adamw_step(float* value, const float* gradient, float* mean, float* square,
                                   std::size_t count) {
  return {.value = value,
          .gradient = gradient,
          .mean = mean,
          .square = square,
          .count = count,
          .gradient_factor = 0.7F,
          .keep = 0.999F,
          .beta1_rest = 0.1F,
          .beta2 = 0.95F,
          .beta2_rest = 0.05F,
          .step_size = 0.003F,
          .root_correction = 0.4F,
          .epsilon = 1e-8F};
}

/// Calls `body` for each level that this machine runs. Sums of one level differ from those of
/// another in rounding, so each is compared with the doubles.
inline void on_each_level(const std::function<void(const ddp::Layers&)>& body) {
  for (const std::string_view level : {"level_base", "level_v3", "level_v4"}) {
    if (const ddp::Layers* layers = ddp::cpu_layers_of(level)) {
      INFO(level);
      body(*layers);
    }
  }
}

/// Largest difference, relative to the largest value.
template <class A, class B>
double difference(const A& mine, const B& exact) {
  REQUIRE(mine.size() == exact.size());
  double worst = 0;
  double largest = 1e-30;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(mine[i]) - static_cast<double>(exact[i])));
    largest = std::max(largest, std::abs(static_cast<double>(exact[i])));
  }
  return worst / largest;
}

/// d f / d x of each element by central differences.
inline Doubles slopes(Doubles x, const std::function<double(const Doubles&)>& f) {
  constexpr double kStep = 1e-5;
  Doubles result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + kStep;
    const double more = f(x);
    x[i] = kept - kStep;
    result[i] = (more - f(x)) / (2 * kStep);
    x[i] = kept;
  }
  return result;
}

}  // namespace ddp_test
