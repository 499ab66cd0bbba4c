// The order in which a ResNet's gradients become complete.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

#include "trainer/resnet/resnet.h"

namespace ddp_test {

TEST_CASE("a ResNet completes its gradients in the reverse order of its parameters") {
  // Data parallelism takes that for the order of backward. With another one the first step after a
  // resume would have other buckets than the same step of an undisturbed run.
  const int depth = GENERATE(18, 50);
  const auto stem = GENERATE(ddp::Stem::small, ddp::Stem::large);
  constexpr std::int64_t kSide = 32;
  ddp::Resnet model({.depth = depth, .stem = stem, .side = kSide, .classes = 10}, 1);
  for (auto& parameter : model.tensors().parameters) {
    parameter.gradient = ddp::Tensor::zeros(parameter.value.shape());  // as data parallelism does
  }
  const std::vector<float> image(kSide * kSide * 3, 0.5F);
  const std::vector<float> d_scores(10, 0.1F);
  model.forward(1, image.data(), true);
  std::vector<std::size_t> completed;
  model.backward(d_scores.data(), [&](std::size_t i) { completed.push_back(i); });

  std::vector<std::size_t> expected(model.tensors().parameters.size());
  std::iota(expected.begin(), expected.end(), 0);
  std::reverse(expected.begin(), expected.end());
  CHECK(completed == expected);
}

}  // namespace ddp_test
