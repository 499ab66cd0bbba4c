#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/unit/trainer/layers/layer_cases.h"
#include "trainer/layers/exponential.h"
#include "trainer/layers/gelu.h"

namespace ddp_test {
namespace {

double exact_gelu(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}

/// Straight from the definition, of rows of `channels`.
Doubles exact_layer_norm(const Doubles& x, const Doubles& w, const Doubles& b,
                         std::size_t channels) {
  Doubles out(x.size());
  for (std::size_t first = 0; first < x.size(); first += channels) {
    double mean = 0;
    double variance = 0;
    for (std::size_t c = 0; c < channels; ++c) {
      mean += x[first + c] / static_cast<double>(channels);
    }
    for (std::size_t c = 0; c < channels; ++c) {
      variance += std::pow(x[first + c] - mean, 2) / static_cast<double>(channels);
    }
    for (std::size_t c = 0; c < channels; ++c) {
      out[first + c] = (x[first + c] - mean) / std::sqrt(variance + 1e-5) * w[c] + b[c];
    }
  }
  return out;
}

}  // namespace

TEST_CASE("the exponential is within its bound over its whole range") {
  double worst = 0;
  for (double x = -87; x <= 88; x += 1.0 / 1024 + 1e-6) {
    const auto single = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(single));
    worst = std::max(worst, std::abs(static_cast<double>(ddp::exponential(single)) / exact - 1));
  }
  CHECK(worst < static_cast<double>(ddp::kExponentialError));
  CHECK(ddp::exponential(0) == 1);
}

TEST_CASE("the exponential stays finite beyond its range, and NaN stays NaN") {
  CHECK(ddp::exponential(1000) == ddp::exponential(88));
  CHECK(ddp::exponential(-1000) == ddp::exponential(-87));
  CHECK(ddp::exponential(-std::numeric_limits<float>::infinity()) > 0);
  CHECK(std::isnan(ddp::exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("GELU and its slope are those of the tanh form") {
  for (double x = -12; x <= 12; x += 0.013) {
    const auto single = static_cast<float>(x);
    const double at = single;
    const double step = 1e-5;
    CHECK(ddp::gelu(single) == Approx(exact_gelu(at)).margin(2e-7));
    CHECK(ddp::gelu_gradient(single) ==
          Approx((exact_gelu(at + step) - exact_gelu(at - step)) / (2 * step)).margin(2e-6));
  }
}

TEST_CASE("a layer norm with its residual is that of doubles") {
  constexpr std::size_t kRows = 5;
  constexpr std::size_t kChannels = 37;
  const Floats input = random_floats(kRows * kChannels, 1);
  const Floats addition = random_floats(kRows * kChannels, 2);
  const Floats weight = random_floats(kChannels, 3);
  const Floats bias = random_floats(kChannels, 4);
  const Floats d_out = random_floats(kRows * kChannels, 5);
  Doubles sum;
  for (std::size_t i = 0; i < input.size(); ++i) {
    sum.push_back(static_cast<double>(input[i]) + static_cast<double>(addition[i]));
  }
  const auto forward = [](const Doubles& x, const Doubles& w, const Doubles& b) {
    return exact_layer_norm(x, w, b, kChannels);
  };
  const auto weighted = [&](const Doubles& out) {
    double total = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      total += out[i] * static_cast<double>(d_out[i]);
    }
    return total;
  };
  const Doubles w = in_doubles(weight);
  const Doubles b = in_doubles(bias);
  on_each_level([&](const ddp::Layers& layers) {
    Floats total(input.size()), out(input.size()), mean(kRows), scale(kRows);
    layers.layer_norm_forward(
        {input.data(), addition.data(), total.data(), weight.data(), bias.data(), out.data(),
         mean.data(), scale.data(), kRows, kChannels},
        0);
    CHECK(difference(total, sum) < 1e-6);
    CHECK(difference(out, forward(sum, w, b)) < 2e-6);

    // Each is added to what is there.
    Floats d_input(input.size(), 1.0F), d_weight(kChannels, 2.0F), d_bias(kChannels, 3.0F);
    Floats d_input_sum(kChannels, 4.0F);
    layers.layer_norm_backward({.d_out = d_out.data(),
                                .input = total.data(),
                                .weight = weight.data(),
                                .mean = mean.data(),
                                .scale = scale.data(),
                                .d_input = d_input.data(),
                                .d_weight = d_weight.data(),
                                .d_bias = d_bias.data(),
                                .rows = kRows,
                                .channels = kChannels,
                                .d_input_sum = d_input_sum.data()},
                               0);
    Doubles sums(kChannels, 4);
    for (std::size_t i = 0; i < d_input.size(); ++i) {
      sums[i % kChannels] += static_cast<double>(d_input[i]);
    }
    CHECK(difference(d_input_sum, sums) < 2e-6);
    const auto plus = [](Doubles values, double more) {
      for (double& value : values) {
        value += more;
      }
      return values;
    };
    CHECK(difference(d_input,
                     plus(slopes(sum, [&](const Doubles& x) { return weighted(forward(x, w, b)); }),
                          1)) < 2e-6);
    CHECK(difference(d_weight,
                     plus(slopes(w, [&](const Doubles& x) { return weighted(forward(sum, x, b)); }),
                          2)) < 2e-6);
    CHECK(difference(d_bias,
                     plus(slopes(b, [&](const Doubles& x) { return weighted(forward(sum, w, x)); }),
                          3)) < 2e-6);
  });
}

TEST_CASE("cross-entropy and its gradient are those of doubles, and an ignored target is none") {
  constexpr std::size_t kRows = 4;
  constexpr std::size_t kVocabulary = 37;
  constexpr std::size_t kStride = 48;
  Floats logits = random_floats(kRows * kStride, 6);
  logits[3] = 50;  // far above all others of its row
  const std::vector<std::int32_t> targets = {3, 0, ddp::kIgnoredTarget, 36};
  const auto loss_of = [&](const Doubles& x) {
    double loss = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (std::size_t v = 0; v < kVocabulary; ++v) {
        sum += std::exp(x[row * kStride + v]);
      }
      if (targets[row] >= 0) {
        loss += std::log(sum) - x[row * kStride + static_cast<std::size_t>(targets[row])];
      }
    }
    return loss;
  };
  on_each_level([&](const ddp::Layers& layers) {
    Floats in_place = logits;
    double loss = 10;  // added to
    ddp::CrossEntropy pass{in_place.data(), targets.data(), &loss,  false,
                           kRows,           kVocabulary,    kStride};
    layers.cross_entropy(pass, 0);
    CHECK(loss - 10 == Approx(loss_of(in_doubles(logits))).epsilon(1e-6));
    CHECK(in_place == logits);
    pass.with_gradient = true;
    layers.cross_entropy(pass, 0);
    CHECK(difference(in_place, slopes(in_doubles(logits), loss_of)) < 1e-6);
  });
}

TEST_CASE("an embedding adds token and position, and its gradient goes to both") {
  const std::vector<std::int32_t> tokens = {2, 0, 2, 1, 2, 2};  // (2, 3)
  const Floats token_weight = random_floats(3 * 5, 7);
  const Floats position_weight = random_floats(3 * 5, 8);
  const Floats d_out = random_floats(6 * 5, 9);
  on_each_level([&](const ddp::Layers& layers) {
    Floats out(6 * 5), d_token(3 * 5), d_position(3 * 5);
    layers.embedding_forward(
        {tokens.data(), token_weight.data(), position_weight.data(), out.data(), 2, 3, 5}, 0);
    CHECK(out[4 * 5 + 1] == token_weight[2 * 5 + 1] + position_weight[1 * 5 + 1]);
    layers.embedding_backward(
        {tokens.data(), d_out.data(), d_token.data(), d_position.data(), 2, 3, 5}, 0);
    CHECK(d_token[1 * 5 + 4] == d_out[3 * 5 + 4]);
    CHECK(d_token[2 * 5] == ((d_out[0] + d_out[2 * 5]) + d_out[4 * 5]) + d_out[5 * 5]);
    CHECK(d_position[2 * 5 + 3] == d_out[2 * 5 + 3] + d_out[5 * 5 + 3]);
  });
}

TEST_CASE("AdamW's update and the norm have the same bits on every level") {
  const Floats gradient = random_floats(1003, 10);
  const Floats value = random_floats(1003, 11);
  std::vector<Floats> values;
  std::vector<double> norms;
  on_each_level([&](const ddp::Layers& layers) {
    Floats mine = value;
    Floats mean(1003, 0.01F), square(1003, 0.02F);
    const ddp::AdamWUpdate update =
        adamw_step(mine.data(), gradient.data(), mean.data(), square.data(), mine.size());
    layers.adamw_update(&update, 1, 0);
    values.push_back(mine);
    const ddp::SquareSum squares{gradient.data(), gradient.size(), &norms.emplace_back()};
    layers.sums_of_squares(&squares, 1, 0);
  });
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(values[i] == values[0]);
    CHECK(norms[i] == norms[0]);
  }
  double squares = 0;
  for (const float g : gradient) {
    squares += static_cast<double>(g) * static_cast<double>(g);
  }
  CHECK(norms[0] == Approx(squares));
}

}  // namespace ddp_test
