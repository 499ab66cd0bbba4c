#include "trainer/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ddp/distributed_sampler.h"
#include "ddp/error.h"
#include "trainer/fingerprint.h"
#include "trainer/linear.h"
#include "trainer/uniform.h"

namespace ddp {
namespace {

constexpr std::size_t kToySamples = 2048;
constexpr std::size_t kToyFeatures = 20;
constexpr std::size_t kHeldOutEvery = 10;
/// Keeps the split's permutation apart from those of the epochs, which start at 0.
constexpr std::uint64_t kSplitEpoch = ~std::uint64_t{0};

/// Rows in the file's order, marked where they are held out. Every rank and every later run marks
/// the same ones: a row that was trained on must never be part of the final test.
std::vector<bool> split(std::size_t row_count, std::uint64_t seed) {
  const auto order = epoch_order(row_count, seed, kSplitEpoch);
  std::vector<bool> held(row_count, false);
  for (std::size_t i = 0; i < row_count; i += kHeldOutEvery) {
    held[order[i]] = true;
  }
  return held;
}

/// Mean and deviation are those of the training rows: the held-out ones must not have a say. Two
/// passes, because the difference of two large sums would lose the digits of a small deviation.
std::vector<double> standardised(const std::vector<double>& values, const std::vector<bool>& held) {
  double sum = 0;
  double count = 0;
  std::optional<double> first;
  bool constant = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += held[i] ? 0 : values[i];
    count += held[i] ? 0 : 1;
    if (!held[i]) {
      constant = constant && values[i] == first.value_or(values[i]);
      first = values[i];
    }
  }
  const double mean = sum / count;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares += held[i] ? 0 : (values[i] - mean) * (values[i] - mean);
  }
  const double deviation = std::sqrt(squares / count);
  std::vector<double> result;
  result.reserve(values.size());
  for (const double value : values) {
    // A constant column says nothing, and 0 leaves its weight without a gradient. Its deviation
    // need not be 0: the mean of equal numbers may differ from them in the last digit.
    result.push_back(!constant && deviation > 0 ? (value - mean) / deviation : 0);
  }
  return result;
}

const CsvColumn& find_target(const CsvTable& table, std::string_view target) {
  std::string names;
  for (const auto& column : table.columns) {
    if (column.name == target) {
      if (!column.numeric()) {
        throw Error(fmt::format("line {}: the target column '{}' must be numeric, but holds '{}'",
                                column.first_text_line, column.name, column.first_text));
      }
      return column;
    }
    names += (names.empty() ? "" : ", ") + column.name;
  }
  throw Error("has no column '" + std::string(target) + "'; its columns are " + names);
}

/// A row's place: in which part, and where there. Both parts keep the order of the file.
struct Placement {
  explicit Placement(const std::vector<bool>& held) : held_out(held) {
    for (const bool h : held) {
      places.push_back(h ? held_count++ : train_count++);
    }
  }
  std::vector<bool> held_out;
  std::vector<std::size_t> places;
  std::size_t train_count = 0;
  std::size_t held_count = 0;
};

std::string fingerprint_of(const Dataset& data) {
  return fingerprint<float>(
      {data.train.features, data.train.targets, data.held_out.features, data.held_out.targets});
}

}  // namespace

// The order of the draws is part of the result: with another one a seed would mean other data.
Dataset toy_dataset(std::uint64_t seed) {
  Dataset data;
  data.name = "toy";
  data.feature_count = kToyFeatures;
  Uniform random(seed);
  for (std::size_t i = 0; i < kToySamples; ++i) {
    for (std::size_t f = 0; f < kToyFeatures; ++f) {
      data.train.features.push_back(random.next());
    }
    data.train.targets.push_back(random.next());
  }
  data.fingerprint = fingerprint_of(data);
  return data;
}

Dataset csv_dataset(const CsvTable& table, std::string_view target, std::uint64_t seed) {
  const auto& target_column = find_target(table, target);
  if (table.columns.size() < 2 || table.row_count < 2) {
    throw Error("needs two columns and two rows at least: one column is the target");
  }
  Dataset data;
  data.name = "csv:" + std::string(target);
  for (const auto& column : table.columns) {
    if (&column != &target_column) {
      data.feature_count += column.numeric() ? 1 : column.categories.size();
    }
  }
  const Placement placement(split(table.row_count, seed));
  data.train.features.resize(placement.train_count * data.feature_count);
  data.train.targets.resize(placement.train_count);
  data.held_out.features.resize(placement.held_count * data.feature_count);
  data.held_out.targets.resize(placement.held_count);
  std::size_t feature = 0;
  for (const auto& column : table.columns) {
    const auto part = [&](std::size_t row) -> Samples& {
      return placement.held_out[row] ? data.held_out : data.train;
    };
    const auto cell = [&](std::size_t row, std::size_t f) -> float& {
      return part(row).features[placement.places[row] * data.feature_count + f];
    };
    if (!column.numeric()) {
      // One feature per text (one-hot): resize() has set all of them to 0.
      for (std::size_t row = 0; row < table.row_count; ++row) {
        cell(row, feature + column.codes[row]) = 1;
      }
      feature += column.categories.size();
      continue;
    }
    const auto values = standardised(column.numbers, placement.held_out);
    const bool is_target = &column == &target_column;
    for (std::size_t row = 0; row < table.row_count; ++row) {
      auto& place = is_target ? part(row).targets[placement.places[row]] : cell(row, feature);
      place = static_cast<float>(values[row]);
    }
    feature += is_target ? 0 : 1;
  }
  data.fingerprint = fingerprint_of(data);
  return data;
}

std::optional<double> r_squared(const Samples& samples, const std::vector<float>& weight,
                                float bias) {
  // Compared, not computed: the mean of equal numbers may differ from them in the last digit, and
  // a spread of 1e-33 is no measure.
  if (std::all_of(samples.targets.begin(), samples.targets.end(),
                  [&](float target) { return target == samples.targets.front(); })) {
    return std::nullopt;
  }
  // In double: a float sum over many rows would be wrong in the digits that are printed.
  const std::size_t features = weight.size();
  double mean = 0;
  for (const float target : samples.targets) {
    mean += target;
  }
  mean /= static_cast<double>(samples.size());
  double errors = 0;
  double spread = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double target = samples.targets[i];
    const double error =
        predict(samples.features.data() + i * features, weight.data(), bias, features) - target;
    errors += error * error;
    spread += (target - mean) * (target - mean);
  }
  return 1 - errors / spread;
}

}  // namespace ddp
