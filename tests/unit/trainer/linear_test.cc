#include "trainer/linear.h"

#include <catch2/catch.hpp>
#include <vector>

#include "trainer/uniform.h"

namespace ddp {
namespace {

/// A batch of 3 out of 5 samples, with all the memory that a pass needs.
struct Batch {
  static constexpr std::size_t kFeatures = 4;
  std::vector<float> features;
  std::vector<float> targets;
  std::vector<std::int64_t> index = {4, 0, 3};
  std::vector<float> weight;
  std::vector<float> bias = {0.3F};
  std::vector<float> d_y = std::vector<float>(3);
  std::vector<float> d_weight = std::vector<float>(kFeatures);
  std::vector<float> d_bias = {0};
  double loss = 0;

  Batch() {
    Uniform random(1);
    for (std::size_t i = 0; i < 5 * kFeatures; ++i) {
      features.push_back(2 * random.next() - 1);
    }
    for (std::size_t i = 0; i < 5; ++i) {
      targets.push_back(2 * random.next() - 1);
    }
    for (std::size_t i = 0; i < kFeatures; ++i) {
      weight.push_back(2 * random.next() - 1);
    }
  }

  void run() {
    cpu_kernels().pass(
        {features.data(), targets.data(), index.data(), index.size(), kFeatures, weight.data(),
         bias.data(), d_y.data(), d_weight.data(), d_bias.data(), &loss},
        0);
  }

  /// The sum of squared errors in doubles, straight from its definition.
  [[nodiscard]] double loss_in_doubles(const std::vector<double>& w, double b) const {
    double sum = 0;
    for (const auto row : index) {
      double y = b;
      for (std::size_t f = 0; f < kFeatures; ++f) {
        y += w[f] * features[static_cast<std::size_t>(row) * kFeatures + f];
      }
      const double error = y - targets[static_cast<std::size_t>(row)];
      sum += error * error;
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("the gradient is that of numeric differentiation", "[linear]") {
  Batch batch;
  batch.run();
  const std::vector<double> w(batch.weight.begin(), batch.weight.end());
  const double b = batch.bias[0];
  CHECK(batch.loss == Approx(batch.loss_in_doubles(w, b)));
  constexpr double kStep = 1e-5;
  for (std::size_t f = 0; f < Batch::kFeatures; ++f) {
    auto more = w;
    auto less = w;
    more[f] += kStep;
    less[f] -= kStep;
    const double slope =
        (batch.loss_in_doubles(more, b) - batch.loss_in_doubles(less, b)) / (2 * kStep);
    CHECK(batch.d_weight[f] == Approx(slope).epsilon(1e-4));
  }
  const double slope =
      (batch.loss_in_doubles(w, b + kStep) - batch.loss_in_doubles(w, b - kStep)) / (2 * kStep);
  CHECK(batch.d_bias[0] == Approx(slope).epsilon(1e-4));
}

TEST_CASE("gradients and losses of two passes add up", "[linear]") {
  Batch once;
  once.run();
  Batch twice;
  twice.run();
  twice.run();
  CHECK(twice.loss == Approx(2 * once.loss));
  CHECK(twice.d_bias[0] == Approx(2 * once.d_bias[0]));
  for (std::size_t f = 0; f < Batch::kFeatures; ++f) {
    CHECK(twice.d_weight[f] == Approx(2 * once.d_weight[f]));
  }
}

TEST_CASE("a batch without samples changes nothing", "[linear]") {
  Batch batch;
  batch.index.clear();
  batch.run();
  CHECK(batch.loss == 0);
  CHECK(batch.d_bias[0] == 0);
  CHECK(batch.d_weight == std::vector<float>(Batch::kFeatures));
}

TEST_CASE("equal inputs give equal bits", "[linear]") {
  Batch first;
  Batch second;
  first.run();
  second.run();
  CHECK(first.d_weight == second.d_weight);
  CHECK(first.loss == second.loss);
}

}  // namespace ddp
