#include "trainer/optimizer.h"

#include <catch2/catch.hpp>

namespace ddp {
namespace {

std::vector<Parameter> one_parameter() {
  return {{"w", Tensor::from<float>({1, 2}), Tensor::from<float>({0.5F, -1})}};
}

}  // namespace

TEST_CASE("plain SGD steps against the gradient", "[optimizer]") {
  const auto parameters = one_parameter();
  Sgd optimizer(parameters, cpu_kernels(), 0.5F, 0);
  optimizer.step();
  optimizer.step();
  CHECK(parameters[0].value.to_vector<float>() == std::vector<float>{0.5F, 3});
}

TEST_CASE("momentum carries a share of the last step on, as torch.optim.SGD does", "[optimizer]") {
  const auto parameters = one_parameter();
  Sgd optimizer(parameters, cpu_kernels(), 0.5F, 0.5F);
  optimizer.step();  // velocity 0.5, -1
  CHECK(parameters[0].value.to_vector<float>() == std::vector<float>{0.75F, 2.5F});
  optimizer.step();  // velocity 0.75, -1.5
  CHECK(parameters[0].value.to_vector<float>() == std::vector<float>{0.375F, 3.25F});
}

TEST_CASE("weight decay adds a share of each weight to its gradient", "[optimizer]") {
  const auto parameters = one_parameter();
  Sgd optimizer(parameters, cpu_kernels(), 0.5F, 0.5F, 0.25F);
  optimizer.step();  // velocity 0.75, -0.5
  CHECK(parameters[0].value.to_vector<float>() == std::vector<float>{0.625F, 2.25F});
  optimizer.set_rate(1);
  optimizer.step();  // velocity 0.375 + 0.5 + 0.15625, -0.25 - 1 + 0.5625
  CHECK(parameters[0].value.to_vector<float>() == std::vector<float>{-0.40625F, 2.9375F});
}

TEST_CASE("an optimizer that is given another's velocities goes on as that one would",
          "[optimizer]") {
  const auto straight = one_parameter();
  Sgd whole(straight, cpu_kernels(), 0.1F, 0.9F);
  whole.step();
  whole.step();
  whole.step();

  auto parts = one_parameter();
  Sgd first(parts, cpu_kernels(), 0.1F, 0.9F);
  first.step();
  Sgd second(parts, cpu_kernels(), 0.1F, 0.9F);
  const auto saved = named_state(parts, first.state());
  const auto restored = named_state(parts, second.state());
  REQUIRE(saved.size() == 1);
  CHECK(saved[0].name == "momentum.w");
  restored[0].tensor.copy_from(saved[0].tensor);
  second.step();
  second.step();
  CHECK(parts[0].value.to_vector<float>() == straight[0].value.to_vector<float>());
}

}  // namespace ddp
