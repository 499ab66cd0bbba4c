// Dataset: samples of F features and one target each, ready to train on: the tutorial's random toy,
// or the columns of a CSV. Pure, and the same on every rank for the same input and seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/csv.h"

namespace ddp {

/// N samples: features (N, F) row by row, targets (N).
struct Samples {
  std::vector<float> features;
  std::vector<float> targets;
  [[nodiscard]] std::size_t size() const { return targets.size(); }
};

struct Dataset {
  /// Says what a model of it learns; part of the model's name in a snapshot.
  std::string name;
  std::size_t feature_count = 0;  ///< F
  Samples train;
  /// Never trained on. Empty for the toy, whose targets nothing can predict.
  Samples held_out;
  /// Of all numbers above: data may be large, so ranks and runs compare this.
  std::string fingerprint;
};

/// The tutorial's: 2,048 samples of 20 features, features and target uniform in [0, 1).
Dataset toy_dataset(std::uint64_t seed);

/// Predicts column `target` from all others. Every tenth row of a permutation that depends on
/// (seed, row count) alone is held out. Numeric columns, the target too, are shifted and scaled to
/// mean 0 and standard deviation 1 of the training rows (a constant column becomes 0); each text of
/// a text column becomes a feature of 0 or 1. Throws ddp::Error when there is no such column (its
/// sentence names those there are), when the target is not numeric, there is no other column, or
/// fewer than 2 rows.
Dataset csv_dataset(const CsvTable& table, std::string_view target, std::uint64_t seed);

/// Coefficient of determination: 1 - (sum of squared errors) / (that of always saying the mean).
/// None where all targets are equal (or there are none): then the mean makes no error, and there is
/// nothing to compare with.
std::optional<double> r_squared(const Samples& samples, const std::vector<float>& weight,
                                float bias);

}  // namespace ddp
