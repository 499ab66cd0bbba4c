// The GPU forms of what is no product, against the CPU forms.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <tuple>

#include "tests/unit/trainer/layers/gpu_case.h"

namespace ddp_test {

TEMPLATE_TEST_CASE("a layer norm on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  // Not as structured bindings: clang 14 lets no lambda have those.
  std::size_t rows = 0, channels = 0;
  // The last two: rows that a warp has in registers, one of them or some for each warp.
  std::tie(rows, channels) = GENERATE(table<std::size_t, std::size_t>(
      {{1, 3}, {5, 37}, {130, 96}, {9, 257}, {67, 264}, {9, 768}, {130, 256}}));
  const bool adds = GENERATE(false, true);
  const Floats input = as_stored<TestType>(random_floats(rows * channels, 1));
  const Floats addition = as_stored<TestType>(random_floats(rows * channels, 2));
  const Floats weight = as_stored<TestType>(random_floats(channels, 3));
  const Floats bias = as_stored<TestType>(random_floats(channels, 4));
  const Floats d_out = as_stored<TestType>(random_floats(rows * channels, 5));
  Floats sum = input, out(input.size()), mean(rows), scale(rows);
  ddp::cpu_layers().layer_norm_forward(
      {input.data(), adds ? addition.data() : nullptr, sum.data(), weight.data(), bias.data(),
       out.data(), mean.data(), scale.data(), rows, channels},
      0);
  // The backward pass begins with the same numbers on both.
  const Floats stored = as_stored<TestType>(sum);
  Floats d_input(input.size(), 1.0F), d_weight(channels, 2.0F), d_bias(channels, 3.0F);
  Floats d_input_sum(channels, 4.0F);
  ddp::cpu_layers().layer_norm_backward(
      {d_out.data(), stored.data(), weight.data(), mean.data(), scale.data(), d_input.data(), adds,
       d_weight.data(), d_bias.data(), rows, channels, adds ? d_input_sum.data() : nullptr},
      0);
  in_each_order([&] {
    const auto& gpu = ddp::gpu_layers<TestType>();
    const OnGpu<TestType> x(input), more(addition), w(weight), b(bias), dy(d_out);
    const OnGpu<TestType> total(input), y(input.size(), 0);
    const OnGpu<float> m(rows, 0), s(rows, 0);
    gpu.layer_norm_forward({x.data(), adds ? more.data() : nullptr, total.data(), w.data(),
                            b.data(), y.data(), m.data(), s.data(), rows, channels},
                           0);
    CHECK(difference(total.floats(), sum) < kTolerance<TestType>);
    // Of rounded sums: two roundings.
    CHECK(difference(y.floats(), out) < 2 * kTolerance<TestType>);
    const OnGpu<TestType> before(stored), dx(input.size(), 1.0F);
    const OnGpu<float> cpu_mean(mean), cpu_scale(scale), dw(channels, 2.0F), db(channels, 3.0F);
    const OnGpu<float> dx_sum(channels, 4.0F);
    gpu.layer_norm_backward(
        {dy.data(), before.data(), w.data(), cpu_mean.data(), cpu_scale.data(), dx.data(), adds,
         dw.data(), db.data(), rows, channels, adds ? dx_sum.data() : nullptr},
        0);
    CHECK(difference(dx.floats(), d_input) < kTolerance<TestType>);
    CHECK(difference(dw.floats(), d_weight) < 1e-5);
    CHECK(difference(db.floats(), d_bias) < 1e-5);
    // A sum of rounded numbers, whose errors add up to less than they do.
    CHECK(difference(dx_sum.floats(), d_input_sum) < kTolerance<TestType>);
  });
}

TEMPLATE_TEST_CASE("cross-entropy on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  std::size_t rows = 0, vocabulary = 0, stride = 0;
  // The last: rows long enough for large blocks.
  std::tie(rows, vocabulary, stride) = GENERATE(table<std::size_t, std::size_t, std::size_t>(
      {{1, 1, 1}, {4, 37, 48}, {3, 1021, 1024}, {3, 8189, 8192}}));
  const bool with_gradient = GENERATE(false, true);
  Floats logits = random_floats(rows * stride, 6);
  logits[0] = 50;  // far above all others of its row
  logits = as_stored<TestType>(logits);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto behind = logits.begin() + static_cast<std::ptrdiff_t>(row * stride + vocabulary);
    std::fill_n(behind, stride - vocabulary, std::nanf(""));
  }
  std::vector<std::int32_t> targets(rows, 0);
  if (rows > 2) {
    targets[1] = ddp::kIgnoredTarget;
    targets[2] = static_cast<std::int32_t>(vocabulary - 1);
  }
  Floats expected = logits;
  double loss = 10;
  ddp::cpu_layers().cross_entropy(
      {expected.data(), targets.data(), &loss, with_gradient, rows, vocabulary, stride}, 0);
  in_each_order([&] {
    const OnGpu<TestType> mine(logits);
    const auto on_gpu = ddp::Tensor::from(targets, ddp::Device::cuda(0));
    const auto sum = ddp::Tensor::from({10.0}, ddp::Device::cuda(0));
    ddp::gpu_layers<TestType>().cross_entropy(
        {mine.data(), on_gpu.template data<std::int32_t>(), sum.template data<double>(),
         with_gradient, rows, vocabulary, stride},
        0);
    CHECK(sum.template item<double>() == Approx(loss).epsilon(1e-6));
    const Floats gradient = mine.floats();
    CHECK(difference(gradient, expected) < kTolerance<TestType>);
    const auto is_nan = [](float x) { return std::isnan(x); };
    CHECK(std::count_if(gradient.begin(), gradient.end(), is_nan) ==
          std::count_if(expected.begin(), expected.end(), is_nan));
  });
}

TEMPLATE_TEST_CASE("an embedding on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  // The last: of more tokens than a grid has blocks.
  std::size_t batch = 0, time = 0, channels = 0, vocabulary = 0;
  std::tie(batch, time, channels, vocabulary) =
      GENERATE(table<std::size_t, std::size_t, std::size_t, std::size_t>(
          {{1, 1, 1, 7}, {2, 3, 5, 7}, {5, 61, 300, 7}, {1, 70, 600, 400}}));
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < batch * time; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * i % (vocabulary - 1)));  // the last never comes
  }
  const Floats token_weight = as_stored<TestType>(random_floats(vocabulary * channels, 7));
  const Floats position_weight = as_stored<TestType>(random_floats(time * channels, 8));
  const Floats d_out = as_stored<TestType>(random_floats(batch * time * channels, 9));
  Floats out(d_out.size()), d_token(token_weight.size(), 1.0F), d_position(time * channels, 2.0F);
  ddp::cpu_layers().embedding_forward({tokens.data(), token_weight.data(), position_weight.data(),
                                       out.data(), batch, time, channels},
                                      0);
  ddp::cpu_layers().embedding_backward(
      {tokens.data(), d_out.data(), d_token.data(), d_position.data(), batch, time, channels}, 0);
  in_each_order([&] {
    const auto& gpu = ddp::gpu_layers<TestType>();
    const auto on_gpu = ddp::Tensor::from(tokens, ddp::Device::cuda(0));
    const OnGpu<TestType> wte(token_weight), wpe(position_weight), y(out.size(), 0), dy(d_out);
    gpu.embedding_forward({on_gpu.template data<std::int32_t>(), wte.data(), wpe.data(), y.data(),
                           batch, time, channels},
                          0);
    CHECK(difference(y.floats(), out) < kTolerance<TestType>);
    const OnGpu<float> d_wte(d_token.size(), 1.0F), d_wpe(d_position.size(), 2.0F);
    gpu.embedding_backward({on_gpu.template data<std::int32_t>(), dy.data(), d_wte.data(),
                            d_wpe.data(), batch, time, channels, vocabulary},
                           0);
    CHECK(d_wte.floats() == d_token);  // in the same order, so with the same bits
    CHECK(d_wpe.floats() == d_position);
  });
}

TEST_CASE("a GPU rounds to bf16 as the CPU does") {
  NEED_GPU();
  const std::size_t count = GENERATE(1, 1023, 1024);
  const Floats values = random_floats(count, 12);
  const OnGpu<float> from(values);
  const OnGpu<ddp::BFloat16> to(count, 0);
  ddp::gpu_layers<ddp::BFloat16>().round(from.data(), to.data(), count, 0);
  CHECK(to.floats() == as_stored<ddp::BFloat16>(values));
}

/// Lengths of a model's tensors, more than go into one launch, some without an element.
std::vector<std::size_t> tensor_lengths() {
  std::vector<std::size_t> lengths = {1, 256, 1003, 33000, 0, 70001};
  for (std::size_t i = 0; i < 150; ++i) {
    lengths.push_back(i * 29 % 101);
  }
  return lengths;
}

TEST_CASE("AdamW on a GPU is the CPU's, tensor by tensor") {
  NEED_GPU();
  struct Arrays {
    Floats value, gradient, mean, square;
  };
  std::vector<Arrays> start;
  for (const std::size_t count : tensor_lengths()) {
    start.push_back({random_floats(count, 11), random_floats(count, 10), Floats(count, 0.01F),
                     Floats(count, 0.02F)});
  }
  std::vector<Arrays> expected = start;
  std::vector<ddp::AdamWUpdate> updates;
  for (auto& [value, gradient, mean, square] : expected) {
    updates.push_back(
        adamw_step(value.data(), gradient.data(), mean.data(), square.data(), value.size()));
    updates.back().keep = 1 - 1e-3F * static_cast<float>(updates.size());
  }
  ddp::cpu_layers().adamw_update(updates.data(), updates.size(), 0);
  in_each_order([&] {
    struct OnDevice {
      OnGpu<float> value, gradient, mean, square;
    };
    std::vector<OnDevice> mine;
    std::vector<ddp::AdamWUpdate> gpu_updates = updates;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const auto& [value, gradient, mean, square] =
          mine.emplace_back(OnDevice{OnGpu<float>(start[i].value), OnGpu<float>(start[i].gradient),
                                     OnGpu<float>(start[i].mean), OnGpu<float>(start[i].square)});
      gpu_updates[i].value = value.data();
      gpu_updates[i].gradient = gradient.data();
      gpu_updates[i].mean = mean.data();
      gpu_updates[i].square = square.data();
    }
    ddp::gpu_layers<float>().adamw_update(gpu_updates.data(), gpu_updates.size(), 0);
    for (std::size_t i = 0; i < start.size(); ++i) {
      INFO("tensor " << i);
      CHECK(difference(mine[i].value.floats(), expected[i].value) < 1e-6);
      CHECK(difference(mine[i].mean.floats(), expected[i].mean) < 1e-6);
      CHECK(difference(mine[i].square.floats(), expected[i].square) < 1e-6);
    }
  });
}

TEST_CASE("the squares that make the gradients' norm are the CPU's on a GPU, tensor by tensor") {
  NEED_GPU();
  std::vector<Floats> gradients;
  for (const std::size_t count : tensor_lengths()) {
    gradients.push_back(random_floats(count, count));
  }
  Doubles expected(gradients.size());
  std::vector<ddp::SquareSum> sums;
  for (const Floats& gradient : gradients) {
    sums.push_back({gradient.data(), gradient.size(), &expected[sums.size()]});
  }
  ddp::cpu_layers().sums_of_squares(sums.data(), sums.size(), 0);
  in_each_order([&] {
    const auto result = ddp::Tensor::from(Doubles(sums.size(), -1), ddp::Device::cuda(0));
    std::vector<OnGpu<float>> mine;
    std::vector<ddp::SquareSum> gpu_sums;
    for (const Floats& gradient : gradients) {
      gpu_sums.push_back({mine.emplace_back(gradient).data(), gradient.size(),
                          result.data<double>() + gpu_sums.size()});
    }
    ddp::gpu_layers<float>().sums_of_squares(gpu_sums.data(), gpu_sums.size(), 0);
    const Doubles squares = result.to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("tensor " << i);
      CHECK(squares[i] == Approx(expected[i]).epsilon(1e-12));
    }
  });
}

}  // namespace ddp_test
