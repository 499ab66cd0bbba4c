#include "worker_runtime/training/bucket_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using ddp::DType;
using ddp::GradientSize;
using ddp::order_of_step;
using ddp::reverse_order;

namespace {

using Order = std::vector<std::size_t>;

std::vector<ddp::Bucket> plan_buckets(const std::vector<GradientSize>& gradients, std::size_t first,
                                      std::size_t other) {
  return ddp::plan_buckets(gradients, reverse_order(gradients.size()), first, other);
}

}  // namespace

TEST_CASE("gradients lie in reverse order of registration", "[worker_runtime]") {
  const auto plan =
      plan_buckets({{10, DType::f32}, {20, DType::f32}, {30, DType::f32}}, 1 << 20, 25 << 20);
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].parameters == std::vector<std::size_t>{2, 1, 0});
  CHECK(plan[0].offsets == std::vector<std::size_t>{0, 32, 64});
  CHECK(plan[0].size == 80 + ddp::kExtraElements);
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

TEST_CASE("gradients lie in the order in which a step completed them", "[worker_runtime]") {
  const auto plan = ddp::plan_buckets(std::vector<GradientSize>(4, {100, DType::f32}),
                                      order_of_step({1, 3, 0, 2}, 4), 400, 800);
  REQUIRE(plan.size() == 3);
  CHECK(plan[0].parameters == Order{1});
  CHECK(plan[1].parameters == Order{3, 0});
  CHECK(plan[2].parameters == Order{2});
}

TEST_CASE("what a step did not complete lies behind the rest, the last registered first",
          "[worker_runtime]") {
  CHECK(order_of_step({}, 3) == Order{2, 1, 0});
  CHECK(order_of_step({1}, 4) == Order{1, 3, 2, 0});
  CHECK(order_of_step({0, 1, 2}, 3) == Order{0, 1, 2});
  CHECK(order_of_step({}, 0).empty());
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
  CHECK(plan[0].size == ddp::kExtraElements);
}

TEST_CASE("any plan holds every gradient once, without overlap", "[worker_runtime]") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<GradientSize> gradients(random() % 40);
    for (GradientSize& gradient : gradients) {
      gradient = {random() % 3000, random() % 4 == 0 ? DType::f64 : DType::f32};
    }
    Order order = reverse_order(gradients.size());
    std::shuffle(order.begin(), order.end(), random);
    const auto plan = ddp::plan_buckets(gradients, order, 1 + random() % 4000, 1 + random() % 9000);
    std::vector<int> seen(gradients.size());
    std::size_t expected = 0;
    for (std::size_t b = 0; b < plan.size(); ++b) {
      std::size_t end = 0;
      for (std::size_t k = 0; k < plan[b].parameters.size(); ++k) {
        const std::size_t parameter = plan[b].parameters[k];
        REQUIRE(parameter == order[expected++]);
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
