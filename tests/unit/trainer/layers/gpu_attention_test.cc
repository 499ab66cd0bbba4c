// Attention on a GPU against the CPU's, at lengths within, at and beyond its tiles of 64 rows.
#include <algorithm>
#include <catch2/catch.hpp>

#include "ddp/error.h"
#include "tests/unit/trainer/layers/gpu_case.h"

namespace ddp_test {
TEMPLATE_TEST_CASE("attention on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  const ddp::AttentionShape shape =
      GENERATE(ddp::AttentionShape{1, 1, 1, 1}, ddp::AttentionShape{2, 5, 3, 7},
               ddp::AttentionShape{1, 64, 1, 64}, ddp::AttentionShape{2, 63, 2, 32},
               ddp::AttentionShape{1, 65, 2, 40}, ddp::AttentionShape{1, 150, 2, 64});
  const std::size_t rows = shape.batch * shape.time;
  // Scores of some hundreds: their exponential is a number only less the row's largest one.
  const float spread = GENERATE(1.0F, 20.0F);
  Floats qkv = random_floats(rows * 3 * shape.channels(), 1);
  for (float& value : qkv) {
    value *= spread;
  }
  qkv = as_stored<TestType>(qkv);
  const Floats d_out = as_stored<TestType>(random_floats(rows * shape.channels(), 2));
  // A float of some hundreds is a multiple of 3e-5, and so is the error of its exponential.
  const double tolerance = spread > 1 ? std::max(1e-4, kTolerance<TestType>) : kTolerance<TestType>;
  std::vector<Line> scratch(ddp::attention_scratch(shape.time, shape.head_size) / 16 + 1);
  Floats out(d_out.size()), log_sum(rows * shape.heads), d_qkv(qkv.size());
  Floats d_qkv_sum(3 * shape.channels(), 1.0F);
  ddp::cpu_layers().attention_forward(
      {shape, qkv.data(), out.data(), log_sum.data(), scratch[0].floats}, 0);
  const Floats stored = as_stored<TestType>(out);
  ddp::cpu_layers().attention_backward(
      {shape, qkv.data(), stored.data(), d_out.data(), log_sum.data(), d_qkv.data(),
       scratch[0].floats, 1, d_qkv_sum.data()},
      0);
  in_each_order([&] {
    const auto& gpu = ddp::gpu_layers<TestType>();
    const OnGpu<TestType> x(qkv), y(out.size(), 9), before(stored), dy(d_out), dx(qkv.size(), 9);
    const OnGpu<float> logs(log_sum.size(), 9), cpu_logs(log_sum), sums(d_qkv_sum.size(), 1.0F);
    gpu.attention_forward({shape, x.data(), y.data(), logs.data(), nullptr}, 0);
    CHECK(difference(y.floats(), out) < tolerance);
    CHECK(difference(logs.floats(), log_sum) < 1e-5);
    gpu.attention_backward({shape, x.data(), before.data(), dy.data(), cpu_logs.data(), dx.data(),
                            nullptr, 1, sums.data()},
                           0);
    // Probabilities and their gradients are rounded before they are added up.
    CHECK(difference(dx.floats(), d_qkv) < 2 * tolerance);
    CHECK(difference(sums.floats(), d_qkv_sum) < 2 * tolerance);
    const OnGpu<TestType> alone(qkv.size(), 9);
    gpu.attention_backward(
        {shape, x.data(), before.data(), dy.data(), cpu_logs.data(), alone.data(), nullptr}, 0);
    CHECK(alone.floats() == dx.floats());
  });
}

TEST_CASE("what a position attends to on a GPU does not depend on what comes after it") {
  NEED_GPU();
  const ddp::AttentionShape shape{1, 130, 1, 32};
  Floats qkv = random_floats(shape.time * 3 * shape.channels(), 4);
  const auto attend = [&] {
    const OnGpu<ddp::BFloat16> x(qkv), y(shape.time * shape.channels(), 0);
    const OnGpu<float> logs(shape.time, 0);
    ddp::gpu_layers<ddp::BFloat16>().attention_forward(
        {shape, x.data(), y.data(), logs.data(), nullptr}, 0);
    return y.floats();
  };
  const Floats before = attend();
  constexpr std::size_t kChanged = 70;
  for (std::size_t i = kChanged * 3 * shape.channels(); i < qkv.size(); ++i) {
    qkv[i] += 5;
  }
  const Floats after = attend();
  const auto same = static_cast<std::ptrdiff_t>(kChanged * shape.channels());
  CHECK(std::equal(before.begin(), before.begin() + same, after.begin()));
  CHECK(before != after);
}

TEST_CASE("a head that is too large for the GPU's attention is refused in a sentence") {
  NEED_GPU();
  const ddp::AttentionShape shape{1, 1, 1, ddp::kGpuHeadSizeMax + 1};
  CHECK_THROWS_WITH(
      ddp::gpu_layers<float>().attention_forward({shape, nullptr, nullptr, nullptr, nullptr}, 0),
      "attention on a GPU takes heads of up to 64 channels; these have 65");
  CHECK_THROWS_WITH(ddp::gpu_layers<float>().attention_forward(
                        {{ddp::kGpuHeadsMax, 1, 2, 1}, nullptr, nullptr, nullptr, nullptr}, 0),
                    "attention on a GPU takes up to 65535 heads of all sequences together; 65535 "
                    "sequences of 2 heads are more: give a smaller --batch-size");
}

}  // namespace ddp_test
