// The GPU forms of what is no product, against the CPU forms.
#include <catch2/catch.hpp>
#include <tuple>

#include "tests/unit/trainer/layers/gpu_case.h"

namespace ddp_test {

TEMPLATE_TEST_CASE("a layer norm on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  // Not as structured bindings: clang 14 lets no lambda have those.
  std::size_t rows = 0, channels = 0;
  std::tie(rows, channels) =
      GENERATE(table<std::size_t, std::size_t>({{1, 3}, {5, 37}, {130, 96}, {9, 257}, {67, 264}}));
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
  ddp::cpu_layers().layer_norm_backward(
      {d_out.data(), stored.data(), weight.data(), mean.data(), scale.data(), d_input.data(), adds,
       d_weight.data(), d_bias.data(), rows, channels},
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
    gpu.layer_norm_backward({dy.data(), before.data(), w.data(), cpu_mean.data(), cpu_scale.data(),
                             dx.data(), adds, dw.data(), db.data(), rows, channels},
                            0);
    CHECK(difference(dx.floats(), d_input) < kTolerance<TestType>);
    CHECK(difference(dw.floats(), d_weight) < 1e-5);
    CHECK(difference(db.floats(), d_bias) < 1e-5);
  });
}

TEMPLATE_TEST_CASE("cross-entropy on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  std::size_t rows = 0, vocabulary = 0, stride = 0;
  std::tie(rows, vocabulary, stride) = GENERATE(
      table<std::size_t, std::size_t, std::size_t>({{1, 1, 1}, {4, 37, 48}, {3, 1021, 1024}}));
  const bool with_gradient = GENERATE(false, true);
  Floats logits = random_floats(rows * stride, 6);
  logits[0] = 50;  // far above all others of its row
  logits = as_stored<TestType>(logits);
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
    CHECK(difference(mine.floats(), expected) < kTolerance<TestType>);
  });
}

TEMPLATE_TEST_CASE("an embedding on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  std::size_t batch = 0, time = 0, channels = 0;
  std::tie(batch, time, channels) =
      GENERATE(table<std::size_t, std::size_t, std::size_t>({{1, 1, 1}, {2, 3, 5}, {5, 61, 300}}));
  constexpr std::size_t kVocabulary = 7;
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < batch * time; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * i % (kVocabulary - 1)));  // the last never comes
  }
  const Floats token_weight = as_stored<TestType>(random_floats(kVocabulary * channels, 7));
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
                            d_wpe.data(), batch, time, channels, kVocabulary},
                           0);
    CHECK(d_wte.floats() == d_token);  // in the same order, so with the same bits
    CHECK(d_wpe.floats() == d_position);
  });
}

TEST_CASE("AdamW and the gradient's norm on a GPU are the CPU's") {
  NEED_GPU();
  const std::size_t count = GENERATE(1, 256, 1003, 33000);
  const Floats gradient = random_floats(count, 10);
  const Floats value = random_floats(count, 11);
  Floats mine = value, mean(count, 0.01F), square(count, 0.02F);
  ddp::cpu_layers().adamw_update(
      adamw_step(mine.data(), gradient.data(), mean.data(), square.data(), count), 0);
  double squares = 0;
  ddp::cpu_layers().sum_of_squares(gradient.data(), count, &squares, 0);
  in_each_order([&] {
    const auto& gpu = ddp::gpu_layers<float>();
    const OnGpu<float> x(value), g(gradient), m(count, 0.01F), s(count, 0.02F);
    gpu.adamw_update(adamw_step(x.data(), g.data(), m.data(), s.data(), count), 0);
    CHECK(difference(x.floats(), mine) < 1e-6);
    CHECK(difference(m.floats(), mean) < 1e-6);
    CHECK(difference(s.floats(), square) < 1e-6);
    const auto sum = ddp::Tensor::from({-1.0}, ddp::Device::cuda(0));  // overwritten
    gpu.sum_of_squares(g.data(), count, sum.data<double>(), 0);
    CHECK(sum.item<double>() == Approx(squares).epsilon(1e-12));
  });
}

}  // namespace ddp_test
