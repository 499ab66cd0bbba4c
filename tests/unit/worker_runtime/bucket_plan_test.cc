#include "worker_runtime/training/bucket_plan.h"

#include <catch2/catch.hpp>
#include <random>

using ddp::DType;
using ddp::GradientSize;
using ddp::plan_buckets;

TEST_CASE("gradients lie in reverse order of registration", "[worker_runtime]") {
  const auto plan =
      plan_buckets({{10, DType::f32}, {20, DType::f32}, {30, DType::f32}}, 1 << 20, 25 << 20);
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].parameters == std::vector<std::size_t>{2, 1, 0});
  CHECK(plan[0].offsets == std::vector<std::size_t>{0, 32, 64});
  CHECK(plan[0].size == 80 + 2);
  CHECK(ddp::extra_offset(plan[0]) == 80);
}

TEST_CASE("the first bucket closes at its own, smaller limit", "[worker_runtime]") {
  // Ten gradients of 400 bytes: the first bucket takes 1000 bytes, the others 2000.
  const auto plan = plan_buckets(std::vector<GradientSize>(10, {100, DType::f32}), 1000, 2000);
  REQUIRE(plan.size() == 3);
  CHECK(plan[0].parameters == std::vector<std::size_t>{9, 8, 7});
  CHECK(plan[1].parameters == std::vector<std::size_t>{6, 5, 4, 3, 2});
  CHECK(plan[2].parameters == std::vector<std::size_t>{1, 0});
}

TEST_CASE("types do not share a bucket", "[worker_runtime]") {
  const auto plan =
      plan_buckets({{4, DType::f32}, {4, DType::f64}, {4, DType::f64}}, 1 << 20, 1 << 20);
  REQUIRE(plan.size() == 2);
  CHECK(plan[0].dtype == DType::f64);
  CHECK(plan[1].dtype == DType::f32);
}

TEST_CASE("without parameters the sample count still has a bucket", "[worker_runtime]") {
  const auto plan = plan_buckets({}, 1 << 20, 25 << 20);
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].size == 2);
}

TEST_CASE("any plan holds every gradient once, without overlap", "[worker_runtime]") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<GradientSize> gradients(random() % 40);
    for (GradientSize& gradient : gradients) {
      gradient = {random() % 3000, random() % 4 == 0 ? DType::f64 : DType::f32};
    }
    const auto plan = plan_buckets(gradients, 1 + random() % 4000, 1 + random() % 9000);
    std::vector<int> seen(gradients.size());
    std::size_t expected = gradients.size();
    for (std::size_t b = 0; b < plan.size(); ++b) {
      std::size_t end = 0;
      for (std::size_t k = 0; k < plan[b].parameters.size(); ++k) {
        const std::size_t parameter = plan[b].parameters[k];
        REQUIRE(parameter == --expected);
        ++seen[parameter];
        REQUIRE(gradients[parameter].dtype == plan[b].dtype);
        REQUIRE(plan[b].offsets[k] >= end);
        REQUIRE(plan[b].offsets[k] % 16 == 0);
        end = plan[b].offsets[k] + gradients[parameter].elements;
      }
      REQUIRE(end <= (b == 0 ? ddp::extra_offset(plan[0]) : plan[b].size));
    }
    REQUIRE(seen == std::vector<int>(gradients.size(), 1));
  }
}
