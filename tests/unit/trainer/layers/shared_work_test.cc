// Layers that share their work out over threads: not a bit depends on how many there are.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/skip.h"
#include "tests/unit/trainer/layers/layer_cases.h"
#include "trainer/layers/winograd_convolution.h"
#include "trainer/linear.h"

extern "C" void omp_set_num_threads(int count);

namespace ddp_test {
namespace {

/// Rows, columns and heads are no multiples of anything, and enough to be worth sharing.
constexpr std::size_t kRows = 211;
constexpr std::size_t kChannels = 6 * 29;
constexpr std::size_t kVocabulary = 301;
constexpr ddp::AttentionShape kAttention{3, 47, 6, 29};

using Results = std::map<std::string, std::vector<double>>;

void keep(Results& results, const std::string& name, const Floats& values) {
  results[name].assign(values.begin(), values.end());
}

void run_layer_norm(const ddp::Layers& layers, Results& results) {
  const Floats input = random_floats(kRows * kChannels, 1);
  const Floats addition = random_floats(kRows * kChannels, 2);
  const Floats weight = random_floats(kChannels, 3);
  Floats sum(input.size()), out(input.size()), mean(kRows), scale(kRows);
  layers.layer_norm_forward(
      {input.data(), addition.data(), sum.data(), weight.data(), weight.data(), out.data(),
       mean.data(), scale.data(), kRows, kChannels},
      0);
  keep(results, "layer norm", out);
  Floats d_input = input, d_weight = weight, d_bias = weight;
  layers.layer_norm_backward({.d_out = addition.data(),
                              .input = sum.data(),
                              .weight = weight.data(),
                              .mean = mean.data(),
                              .scale = scale.data(),
                              .d_input = d_input.data(),
                              .d_weight = d_weight.data(),
                              .d_bias = d_bias.data(),
                              .rows = kRows,
                              .channels = kChannels},
                             0);
  keep(results, "layer norm's gradient", d_input);
  keep(results, "its weight's gradient", d_weight);
  keep(results, "its bias's gradient", d_bias);
}

void run_attention(const ddp::Layers& layers, Results& results) {
  const std::size_t count = kAttention.batch * kAttention.time * kAttention.channels();
  const Floats qkv = random_floats(3 * count, 4);
  const Floats d_out = random_floats(count, 5);
  Floats out(count), d_qkv(3 * count);
  Floats log_sum(kAttention.batch * kAttention.heads * kAttention.time);
  const std::size_t threads = ddp::cpu_layer_threads();
  std::vector<Line> scratch(
      threads * ddp::attention_scratch(kAttention.time, kAttention.head_size) / 16 + 1);
  float* memory = scratch[0].floats;
  layers.attention_forward({kAttention, qkv.data(), out.data(), log_sum.data(), memory, threads},
                           0);
  layers.attention_backward({kAttention, qkv.data(), out.data(), d_out.data(), log_sum.data(),
                             d_qkv.data(), memory, threads},
                            0);
  keep(results, "attention", out);
  keep(results, "attention's gradient", d_qkv);
}

void run_loss(const ddp::Layers& layers, Results& results) {
  Floats logits = random_floats(kRows * kVocabulary, 6);
  std::vector<std::int32_t> targets;
  for (std::size_t row = 0; row < kRows; ++row) {
    targets.push_back(row % 5 == 0 ? ddp::kIgnoredTarget : static_cast<std::int32_t>(row));
  }
  double loss = 0;
  layers.cross_entropy({.logits = logits.data(),
                        .targets = targets.data(),
                        .loss = &loss,
                        .rows = kRows,
                        .vocabulary = kVocabulary,
                        .stride = kVocabulary},
                       0);
  results["loss"] = {loss};
  keep(results, "loss's gradient", logits);
}

void run_optimizer(const ddp::Layers& layers, Results& results) {
  constexpr std::size_t kCount = 100'003;
  Floats value = random_floats(kCount, 7), mean(kCount), square(kCount);
  const Floats gradient = random_floats(kCount, 8);
  double norm = 0;
  const ddp::SquareSum squares{gradient.data(), kCount, &norm};
  layers.sums_of_squares(&squares, 1, 0);
  const ddp::AdamWUpdate update =
      adamw_step(value.data(), gradient.data(), mean.data(), square.data(), kCount);
  layers.adamw_update(&update, 1, 0);
  results["norm"] = {norm};
  keep(results, "updated values", value);
}

void run_sgd(Results& results) {
  constexpr std::size_t kCount = 100'003;
  Floats value = random_floats(kCount, 12), velocity(kCount);
  const Floats gradient = random_floats(kCount, 13);
  for (int step = 0; step < 2; ++step) {
    const ddp::SgdUpdate update = {
        value.data(), velocity.data(), gradient.data(), kCount, 0.1F, 0.9F, 0.01F};
    ddp::cpu_kernels().update(&update, 1, 0);
  }
  keep(results, "values updated by SGD", value);
}

/// Of few bits: sums of their products are exact, in whatever order they are made.
Floats coarse_floats(std::size_t count, std::uint64_t seed) {
  Floats values = random_floats(count, seed);
  for (float& value : values) {
    value = std::round(16 * value) / 16;
  }
  return values;
}

/// The products' own threads are oneDNN's, which makes no promise (without AVX-512 it keeps none);
/// bias and GELU are ours.
void run_epilogue(const ddp::Layers& layers, Results& results) {
  const Floats d_out = random_floats(kRows * kChannels, 9);
  const Floats input = coarse_floats(kRows * 3, 10);
  const Floats weight = coarse_floats(3 * kChannels, 11);
  Floats out(kRows * kChannels), activated(kRows * kChannels), d_input(kRows * 3);
  Floats d_weight(3 * kChannels), d_bias(kChannels);
  layers.linear_forward({input.data(), weight.data(), weight.data(), out.data(), activated.data(),
                         kRows, 3, kChannels},
                        0);
  layers.linear_backward({d_out.data(), input.data(), weight.data(), nullptr, d_input.data(),
                          d_weight.data(), d_bias.data(), kRows, 3, kChannels},
                         0);
  keep(results, "linear layer with GELU", activated);
  keep(results, "linear bias's gradient", d_bias);
}

void run_winograd(const ddp::Layers& layers, Results& results) {
  constexpr std::int64_t kBatch = 9;
  const ddp::Conv2dShape shape{64, 96, 11, 12, 3, 1, 1};
  const Floats x = random_floats(kBatch * 11 * 12 * 64, 14);
  const Floats d_y = random_floats(kBatch * 11 * 12 * 96, 15);
  const Floats weight = random_floats(std::size_t{96} * 64 * 9, 16);
  ddp::WinogradConvolution layer(shape, layers);
  Floats y(d_y.size()), d_x(x.size()), d_weight(weight.size());
  layer.forward(kBatch, x.data(), weight.data(), y.data());
  layer.backward_data(kBatch, d_y.data(), weight.data(), d_x.data());
  layer.backward_weights(kBatch, x.data(), d_y.data(), d_weight.data());
  keep(results, "convolution by Winograd", y);
  keep(results, "its input's gradient", d_x);
  keep(results, "its weight's gradient (Winograd)", d_weight);
}

}  // namespace

TEST_CASE("layers have the same bits with any number of threads") {
  const auto threads_before = static_cast<int>(ddp::cpu_layer_threads());
  omp_set_num_threads(3);
  if (ddp::cpu_layer_threads() != 3) {
    SKIP_TEST("openmp", "the layers of this build have one thread");
  }
  on_each_level([](const ddp::Layers& layers) {
    std::map<int, Results> by_threads;
    for (const int threads : {1, 2, 3, 8}) {
      omp_set_num_threads(threads);
      Results& results = by_threads[threads];
      run_layer_norm(layers, results);
      run_attention(layers, results);
      run_loss(layers, results);
      run_optimizer(layers, results);
      run_sgd(results);
      run_epilogue(layers, results);
      run_winograd(layers, results);
      for (const auto& [name, values] : results) {
        INFO(name << " with " << threads << " threads");
        CHECK(values == by_threads[1][name]);
      }
    }
  });
  omp_set_num_threads(threads_before);
}

}  // namespace ddp_test
