// The layers of a ResNet against their definitions, written out in double precision. Odd shapes:
// sizes that no vector width divides, strides that leave a rest.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/layers/batch_norm.h"
#include "trainer/layers/class_loss.h"
#include "trainer/layers/conv2d.h"
#include "trainer/layers/dense.h"
#include "trainer/layers/pool2d.h"
#include "trainer/layers/row_chunks.h"
#include "trainer/uniform.h"

namespace ddp {
namespace {

using Floats = std::vector<float>;

Floats random_floats(std::int64_t count, std::uint64_t seed) {
  Uniform random(seed);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = 2 * random.next() - 1;
  }
  return values;
}

float at(const Floats& values, std::int64_t index) {
  return values.at(static_cast<std::size_t>(index));
}

void check_close(const Floats& found, const std::vector<double>& wanted, double share = 1e-5) {
  REQUIRE(found.size() == wanted.size());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - wanted[i], 2);
    size += wanted[i] * wanted[i];
  }
  CHECK(std::sqrt(difference) <= share * std::sqrt(size));
}

/// Calls body(x index, weight index, y index) for each product of the convolution.
void for_products(const Conv2dShape& s, std::int64_t batch,
                  const std::function<void(std::size_t, std::size_t, std::size_t)>& body) {
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t y = 0; y < s.out_height() * s.out_width(); ++y) {
      for (std::int64_t r = 0; r < s.kernel * s.kernel; ++r) {
        const auto h = y / s.out_width() * s.stride - s.padding + r / s.kernel;
        const auto w = y % s.out_width() * s.stride - s.padding + r % s.kernel;
        if (h < 0 || h >= s.height || w < 0 || w >= s.width) {
          continue;
        }
        for (std::int64_t c = 0; c < s.in_channels; ++c) {
          for (std::int64_t k = 0; k < s.out_channels; ++k) {
            body(static_cast<std::size_t>(((n * s.height + h) * s.width + w) * s.in_channels + c),
                 static_cast<std::size_t>((k * s.in_channels + c) * s.kernel * s.kernel + r),
                 static_cast<std::size_t>(
                     (n * s.out_height() * s.out_width() + y) * s.out_channels + k));
          }
        }
      }
    }
  }
}

const Conv2dShape kConvolutions[] = {{3, 64, 9, 7, 3, 1, 1},
                                     {5, 7, 11, 11, 3, 2, 1},
                                     {16, 24, 8, 8, 1, 2, 0},
                                     {3, 16, 15, 13, 7, 2, 3},
                                     {33, 17, 5, 5, 1, 1, 0}};

}  // namespace

TEST_CASE("a convolution and both of its gradients are the sums of their products", "[layers]") {
  for (const auto& s : kConvolutions) {
    for (const std::int64_t batch : {1, 3}) {
      INFO(s.in_channels << " to " << s.out_channels << ", kernel " << s.kernel << ", batch "
                         << batch);
      const auto x = random_floats(batch * s.height * s.width * s.in_channels, 1);
      const auto weight = random_floats(s.out_channels * s.in_channels * s.kernel * s.kernel, 2);
      const auto d_y = random_floats(batch * s.out_height() * s.out_width() * s.out_channels, 3);
      std::vector<double> y(d_y.size());
      std::vector<double> d_x(x.size());
      std::vector<double> d_weight(weight.size(), 1);  // it is added to what is there
      for_products(s, batch, [&](std::size_t i, std::size_t w, std::size_t o) {
        y[o] += static_cast<double>(x[i]) * static_cast<double>(weight[w]);
        d_x[i] += static_cast<double>(d_y[o]) * static_cast<double>(weight[w]);
        d_weight[w] += static_cast<double>(d_y[o]) * static_cast<double>(x[i]);
      });
      Conv2d layer(s);
      Floats found_y(y.size());
      Floats found_d_x(x.size(), 7);  // overwritten
      Floats found_d_weight(weight.size(), 1);
      layer.forward(batch, x.data(), weight.data(), found_y.data());
      layer.backward_data(batch, d_y.data(), weight.data(), found_d_x.data());
      layer.backward_weights(batch, x.data(), d_y.data(), found_d_weight.data());
      check_close(found_y, y);
      check_close(found_d_x, d_x);
      check_close(found_d_weight, d_weight);
    }
  }
}

namespace {

/// Batch normalisation as the paper defines it, with ReLU, in double.
struct Normalised {
  std::vector<double> y;
  std::vector<double> d_x;
  std::vector<double> d_gamma;
  std::vector<double> d_beta;
  std::vector<double> d_residual;
  std::vector<double> mean;
  std::vector<double> variance;  // unbiased
};

Normalised normalised(std::int64_t rows, std::int64_t channels, const Floats& x,
                      const Floats& gamma, const Floats& beta, const Floats& residual,
                      const Floats& d_y) {
  Normalised all;
  all.y.resize(x.size());
  all.d_x.resize(x.size());
  all.d_residual.resize(x.size());
  for (std::int64_t c = 0; c < channels; ++c) {
    double mean = 0;
    double variance = 0;
    for (std::int64_t m = 0; m < rows; ++m) {
      mean += static_cast<double>(at(x, m * channels + c)) / static_cast<double>(rows);
    }
    for (std::int64_t m = 0; m < rows; ++m) {
      variance += std::pow(static_cast<double>(at(x, m * channels + c)) - mean, 2) /
                  static_cast<double>(rows);
    }
    const double inverse = 1 / std::sqrt(variance + 1e-5);
    double sum = 0;
    double product = 0;
    for (std::int64_t m = 0; m < rows; ++m) {
      const auto i = static_cast<std::size_t>(m * channels + c);
      const double unit = (static_cast<double>(x[i]) - mean) * inverse;
      const double y = unit * static_cast<double>(at(gamma, c)) + static_cast<double>(at(beta, c)) +
                       static_cast<double>(residual[i]);
      all.y[i] = std::max(0.0, y);
      all.d_residual[i] = y > 0 ? static_cast<double>(d_y[i]) : 0;
      sum += all.d_residual[i];
      product += all.d_residual[i] * unit;
    }
    for (std::int64_t m = 0; m < rows; ++m) {
      const auto i = static_cast<std::size_t>(m * channels + c);
      const double unit = (static_cast<double>(x[i]) - mean) * inverse;
      all.d_x[i] = static_cast<double>(at(gamma, c)) * inverse *
                   (all.d_residual[i] - (sum + unit * product) / static_cast<double>(rows));
    }
    all.d_gamma.push_back(product);
    all.d_beta.push_back(sum);
    all.mean.push_back(mean);
    all.variance.push_back(variance * static_cast<double>(rows) / static_cast<double>(rows - 1));
  }
  return all;
}

}  // namespace

TEST_CASE("batch normalisation with residual and ReLU, forward and backward", "[layers]") {
  for (const auto& [rows, channels] :
       {std::pair<std::int64_t, std::int64_t>{7, 5}, {200, 3}, {9000, 19}, {64, 64}}) {
    INFO(rows << " x " << channels);
    auto x = random_floats(rows * channels, 4);
    for (float& value : x) {
      value = 10 + value;  // 17 deviations from 0: a difference of squares would lose digits
    }
    const auto gamma = random_floats(channels, 5);
    const auto beta = random_floats(channels, 6);
    const auto residual = random_floats(rows * channels, 7);
    auto d_y = random_floats(rows * channels, 8);
    const auto wanted = normalised(rows, channels, x, gamma, beta, residual, d_y);
    const auto size = static_cast<std::size_t>(channels);
    Floats running_mean(size, 0);
    Floats running_variance(size, 1);
    Floats mean(size);
    Floats inverse(size);
    Floats y(x.size());
    norm_forward({rows, channels},
                 {x.data(), gamma.data(), beta.data(), residual.data(), true, running_mean.data(),
                  running_variance.data(), mean.data(), inverse.data(), y.data()});
    check_close(y, wanted.y);
    for (std::size_t c = 0; c < size; ++c) {
      CHECK(static_cast<double>(running_mean[c]) == Approx(0.1 * wanted.mean[c]));
      CHECK(static_cast<double>(running_variance[c]) ==
            Approx(0.9 + 0.1 * wanted.variance[c]).epsilon(1e-4));
    }
    Floats d_gamma(size);
    Floats d_beta(size);
    Floats d_x(x.size());
    norm_backward({rows, channels}, {x.data(), y.data(), gamma.data(), mean.data(), inverse.data(),
                                     d_y.data(), d_gamma.data(), d_beta.data(), d_x.data()});
    check_close(d_y, wanted.d_residual);
    check_close(d_beta, wanted.d_beta);
    check_close(d_gamma, wanted.d_gamma, 1e-4);
    check_close(d_x, wanted.d_x);
  }
}

TEST_CASE("inference normalises by the running statistics and leaves them", "[layers]") {
  const Floats x = {3, 5};
  const Floats gamma = {2};
  const Floats beta = {1};
  Floats mean = {4};
  Floats variance = {0.25F - 1e-5F};
  Floats y(2);
  norm_infer({2, 1}, {.x = x.data(),
                      .gamma = gamma.data(),
                      .beta = beta.data(),
                      .relu = true,
                      .running_mean = mean.data(),
                      .running_variance = variance.data(),
                      .y = y.data()});
  CHECK(y[0] == 0);  // (3 - 4) / 0.5 * 2 + 1 is below 0
  CHECK(y[1] == Approx(5));
  CHECK(mean[0] == 4);
}

TEST_CASE("the largest of each window is passed on, and gets the gradient", "[layers]") {
  // 3 x 3 pixels of one channel; four windows, of which each has the middle.
  const Floats x = {1, 2, 3, 4, -9, 4, 7, 4, 9};
  Floats y(4);
  std::vector<std::uint8_t> chosen(4);
  max_pool_forward({3, 3, 1}, 1, x.data(), y.data(), chosen.data());
  CHECK(y == Floats{4, 4, 7, 9});
  const Floats d_y = {1, 10, 100, 1000};
  Floats d_x(9, 5);
  max_pool_backward({3, 3, 1}, 1, d_y.data(), chosen.data(), d_x.data());
  CHECK(d_x == Floats{0, 0, 0, 1, 0, 10, 100, 0, 1000});
}

TEST_CASE("of equals the first of a window is chosen, as in PyTorch", "[layers]") {
  const Floats x(2 * 2, -1);
  Floats y(1);
  std::vector<std::uint8_t> chosen(1);
  max_pool_forward({2, 2, 1}, 1, x.data(), y.data(), chosen.data());
  CHECK(y[0] == -1);  // the padding is no pixel
  CHECK(chosen[0] == 4);
}

TEST_CASE("the mean of all pixels, and its gradient to each", "[layers]") {
  const Floats x = {1, 10, 3, 30, 5, 50, 7, 70};  // 2 x 2 pixels of 2 channels
  Floats y(2);
  mean_pool_forward({2, 2, 2}, 1, x.data(), y.data());
  CHECK(y == Floats{4, 40});
  Floats d_x(8);
  mean_pool_backward({2, 2, 2}, 1, Floats{4, 8}.data(), d_x.data());
  CHECK(d_x == Floats{1, 2, 1, 2, 1, 2, 1, 2});
}

TEST_CASE("a dense layer and its gradients", "[layers]") {
  const Floats x = {1, 2, 3, 4, 5, 6};        // (2, 3)
  const Floats weight = {1, 0, -1, 2, 1, 0};  // (2, 3)
  const Floats bias = {10, 20};
  Floats y(4);
  dense_forward({3, 2}, 2, x.data(), weight.data(), bias.data(), y.data());
  CHECK(y == Floats{8, 24, 8, 33});
  const Floats d_y = {1, 2, 3, 4};
  Floats d_weight(6, 1);
  Floats d_bias(2, 1);
  Floats d_x(6);
  dense_backward({3, 2}, 2,
                 {x.data(), weight.data(), d_y.data(), d_weight.data(), d_bias.data(), d_x.data()});
  CHECK(d_weight == Floats{14, 18, 22, 19, 25, 31});
  CHECK(d_bias == Floats{5, 7});
  CHECK(d_x == Floats{5, 2, -1, 11, 4, -3});
}

TEST_CASE("the loss of classes is minus the logarithm of the softmax", "[layers]") {
  Floats scores = {0, 0, 1000, -1000};  // large ones do not overflow
  const std::vector<std::int32_t> targets = {1, 0};
  for (const bool with_gradient : {false, true}) {
    const auto loss = class_loss(scores, targets, with_gradient);
    CHECK(loss.sum == Approx(std::log(2.0)));
    CHECK(loss.correct == 1);  // of equal scores the first counts
  }
  // exponential.h has no 0: its least value is 1.6e-38.
  CHECK_THAT(scores, Catch::Matchers::Approx(Floats{0.5F, -0.5F, 0, 0}).margin(1e-37));
}

TEST_CASE("chunks cover each row once, and depend on the number of rows alone", "[layers]") {
  for (const std::int64_t rows : {0, 1, 63, 64, 65, 1000}) {
    std::vector<int> seen(static_cast<std::size_t>(rows));
    for_row_chunks(rows, [&](std::int64_t chunk, std::int64_t first, std::int64_t end) {
      CHECK(chunk < chunk_count(rows));
      for (auto row = first; row < end; ++row) {
        ++seen[static_cast<std::size_t>(row)];
      }
    });
    CHECK(seen == std::vector<int>(seen.size(), 1));
    CHECK(chunk_count(rows) <= kChunksMax);
  }
}

}  // namespace ddp
