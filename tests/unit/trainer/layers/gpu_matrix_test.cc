// The GPU forms of what is made of products, against the CPU forms. On the stand-in the products
// are those of a stand-in for cuBLASLt.
#include <catch2/catch.hpp>
#include <tuple>

#include "tests/unit/trainer/layers/gpu_case.h"
#include "trainer/layers/gelu.h"

namespace ddp_test {

TEMPLATE_TEST_CASE("a linear layer on a GPU is the CPU's", "", float, ddp::BFloat16) {
  NEED_GPU();
  // Multiples of 8, where cuBLASLt has the epilogues itself; and none, where it has not.
  std::size_t rows = 0, inputs = 0, outputs = 0;
  std::tie(rows, inputs, outputs) = GENERATE(table<std::size_t, std::size_t, std::size_t>(
      {{1, 1, 1}, {16, 24, 40}, {131, 19, 23}, {70, 64, 8}}));
  const Floats input = as_stored<TestType>(random_floats(rows * inputs, 5));
  const Floats weight = as_stored<TestType>(random_floats(inputs * outputs, 6));
  const Floats bias = as_stored<TestType>(random_floats(outputs, 7));
  const Floats d_out = as_stored<TestType>(random_floats(rows * outputs, 8));
  const Floats before_gelu = as_stored<TestType>(random_floats(rows * inputs, 9));
  const bool with_gelu = GENERATE(false, true);
  const auto& cpu = ddp::cpu_layers();
  Floats out(rows * outputs), activated(rows * outputs);
  cpu.linear_forward({input.data(), weight.data(), bias.data(), out.data(),
                      with_gelu ? activated.data() : nullptr, rows, inputs, outputs},
                     0);
  Floats d_input(input.size()), d_weight(weight.size(), 1.0F), d_bias(outputs, 2.0F);
  cpu.linear_backward(
      {d_out.data(), input.data(), weight.data(), with_gelu ? before_gelu.data() : nullptr,
       d_input.data(), d_weight.data(), d_bias.data(), rows, inputs, outputs},
      0);
  in_each_order([&] {
    const auto& gpu = ddp::gpu_layers<TestType>();
    const OnGpu<TestType> x(input), w(weight), b(bias), dy(d_out), before(before_gelu);
    const OnGpu<TestType> y(out.size(), 0), gelu_of_y(out.size(), 0), dx(input.size(), 0);
    const OnGpu<float> dw(weight.size(), 1.0F), db(outputs, 2.0F);
    gpu.linear_forward({x.data(), w.data(), b.data(), y.data(),
                        with_gelu ? gelu_of_y.data() : nullptr, rows, inputs, outputs},
                       0);
    CHECK(difference(y.floats(), out) < kTolerance<TestType>);
    if (with_gelu) {
      CHECK(difference(gelu_of_y.floats(), activated) < kTolerance<TestType>);
    }
    gpu.linear_backward({dy.data(), x.data(), w.data(), with_gelu ? before.data() : nullptr,
                         dx.data(), dw.data(), db.data(), rows, inputs, outputs},
                        0);
    CHECK(difference(dx.floats(), d_input) < kTolerance<TestType>);
    CHECK(difference(dw.floats(), d_weight) < 1e-5);
    CHECK(difference(db.floats(), d_bias) < 1e-5);
    // Overwritten, and without a bias's gradient.
    const OnGpu<float> over(weight.size(), 9.0F);
    gpu.linear_backward({dy.data(), x.data(), w.data(), with_gelu ? before.data() : nullptr,
                         dx.data(), over.data(), nullptr, rows, inputs, outputs, false},
                        0);
    Floats one_more = over.floats();
    for (float& value : one_more) {
      value += 1;
    }
    CHECK(difference(one_more, d_weight) < 1e-5);
  });
}

TEMPLATE_TEST_CASE("a product on a GPU takes rows that lie apart, and adds", "", float,
                   ddp::BFloat16) {
  NEED_GPU();
  // More rows than a tile has, and an odd number: gradients are made in two products.
  constexpr std::size_t kM = 137, kN = 7, kK = 5, kStride = 144;
  const bool a_turned = GENERATE(false, true);
  const bool b_turned = GENERATE(false, true);
  const Floats a = as_stored<TestType>(random_floats(kStride * kStride, 10));
  const Floats b = as_stored<TestType>(random_floats(kStride * kStride, 11));
  Floats out(kM * kStride, 3.0F), added(kM * kStride, 3.0F);
  ddp::Product cpu{.m = kM,
                   .n = kN,
                   .k = kK,
                   .a = {a.data(), kStride, a_turned},
                   .b = {b.data(), kStride, b_turned},
                   .out = out.data(),
                   .out_stride = kStride};
  ddp::cpu_layers().product(cpu, 0);
  cpu.out = added.data();
  cpu.add = true;
  ddp::cpu_layers().product(cpu, 0);
  const OnGpu<TestType> gpu_a(a), gpu_b(b), mine(out.size(), 3.0F);
  const OnGpu<float> sums(added.size(), 3.0F);
  const auto& gpu = ddp::gpu_layers<TestType>();
  gpu.product({.m = kM,
               .n = kN,
               .k = kK,
               .a = {gpu_a.data(), kStride, a_turned},
               .b = {gpu_b.data(), kStride, b_turned},
               .out = mine.data(),
               .out_stride = kStride},
              0);
  CHECK(difference(mine.floats(), out) < kTolerance<TestType>);
  gpu.gradient_product({.m = kM,
                        .n = kN,
                        .k = kK,
                        .a = {gpu_a.data(), kStride, a_turned},
                        .b = {gpu_b.data(), kStride, b_turned},
                        .out = sums.data(),
                        .out_stride = kStride,
                        .add = true},
                       0);
  CHECK(difference(sums.floats(), added) < 1e-5);
}

}  // namespace ddp_test
